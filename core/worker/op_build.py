"""Building DeepSpeed's inference op, which its kernel injection needs."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import torch

from core.worker.errors import Refused

ARCHITECTURES = "TORCH_CUDA_ARCH_LIST"
_SUFFIX = re.compile(r"(\d+\.\d+)[a-z]\b")


def plain_architectures(architectures: str) -> str:
    """`8.0 9.0a+PTX` as `8.0 9.0+PTX`: DeepSpeed's builder cannot read the letter of architecture-specific targets."""
    return _SUFFIX.sub(r"\1", architectures)


def build_op(warnings: list[str]) -> None:
    """Build the op or load it from torch's cache of extensions; about 40 s on 16 cores the first time.

    Raises Refused when it cannot be built, naming the compiler and the architectures that were to be used.
    """
    given = os.environ.get(ARCHITECTURES)
    if given and plain_architectures(given) != given:
        os.environ[ARCHITECTURES] = plain_architectures(given)
        warnings.append(f"{ARCHITECTURES}={given} became {os.environ[ARCHITECTURES]}: DeepSpeed cannot read the letter")
    # an interpreter started by its path has not its folder on PATH, and ninja is installed there
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    nvcc = _nvcc()
    for program, found in (("nvcc", nvcc), ("c++", _host_compiler()), ("ninja", shutil.which("ninja"))):
        if found is None:
            raise Refused(
                f"DeepSpeed's inference op cannot be built: there is no {program}. Install the CUDA toolkit "
                f"{torch.version.cuda} (CUDA_HOME names its folder), a C++ compiler and ninja, or set "
                "kernel_inject=false"
            )
    from deepspeed.ops.op_builder import InferenceBuilder

    try:
        InferenceBuilder().load()
    except Exception as error:
        # compilers, version checks and loaders fail in many ways; all of them mean the same here
        raise Refused(
            f"DeepSpeed's inference op does not build with {nvcc} for {ARCHITECTURES}="
            f"{os.environ.get(ARCHITECTURES, 'the card found')}: {type(error).__name__}: {error}"
        ) from error


def _nvcc() -> str | None:
    from torch.utils import cpp_extension

    home: Any = cpp_extension.CUDA_HOME
    return shutil.which(str(Path(home) / "bin" / "nvcc")) if home else None


def _host_compiler() -> str | None:
    return shutil.which(os.environ.get("CXX", "c++")) or shutil.which("g++")
