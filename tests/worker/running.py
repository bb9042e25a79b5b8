"""Makes run folders and runs real workers in them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.runfolder.jsonio import read_json, read_json_lines, write_json
from core.runfolder.layout import RunFolder

ROOT = Path(__file__).resolve().parents[2]

TINY = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": 1000,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
}
PARAMETERS = 2 * 1000 * 64 + 2 * (4 * 64 * 64 + 3 * 64 * 128 + 2 * 64) + 64
"""Embedding and head; attention, gated MLP and two norms a layer; the last norm."""

SPEC: dict[str, Any] = {
    "model": "tiny-llama",
    "revision": None,
    "weights": "random",
    "placement": "device",
    "job": "generate",
    "dtype": "bf16",
    "attn_implementation": "sdpa",
    "engine": "transformers",
    "kernel_inject": False,
    "tp_size": 1,
    "max_out_tokens": None,
    "wrap": "none",
    "autocast": "none",
    "grad_mode": "inference_mode",
    "batch_size": 2,
    "prompt_tokens": 32,
    "new_tokens": 16,
    "padding": 0,
    "use_cache": True,
    "cache_implementation": None,
    "num_beams": 1,
    "do_sample": False,
    "temperature": None,
    "top_k": None,
    "top_p": None,
    "seed": 0,
    "repeats": 1,
    "empty_cache_before_generate": False,
    "prefill_cache_mib": 0,
    "allocator": "",
    "device": "cpu",
    "capacity_mib": None,
    "environment": "default",
    "record_interval_ms": 10.0,
    "record_history": True,
    "record_stacks": False,
    "record_modules": False,
    "timeout_s": 3600.0,
}


@dataclass(frozen=True)
class Ran:
    """A run that has ended: its result and the last row of each phase, in order."""

    folder: RunFolder
    result: dict[str, Any]
    phases: list[dict[str, Any]]

    def named(self, name: str) -> list[dict[str, Any]]:
        return [phase for phase in self.phases if phase["name"] == name]

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(phase["name"] for phase in self.phases))


def make_folder(
    root: Path, config: dict[str, Any] | None = None, source: dict[str, Any] | None = None, **fields: Any
) -> RunFolder:
    """A run folder as a submit leaves it; `fields` replace those of SPEC."""
    folder = RunFolder(root)
    folder.model.mkdir(parents=True)
    folder.model_config.write_text(json.dumps(TINY if config is None else config))
    document = {
        "run_id": root.name,
        "experiment_id": "test",
        "spec": {**SPEC, **fields},
        "source": source or {"kind": "preset", "name": "tiny-llama", "path": None},
        "warnings": [],
    }
    write_json(folder.spec, document)
    return folder


def environment(*overlays: str, card: bool = False) -> dict[str, str]:
    """What a worker is started with; without `card` it sees none."""
    passed = {**os.environ, "PYTHONPATH": os.pathsep.join([*overlays, str(ROOT)]), "HF_HUB_OFFLINE": "1"}
    if not card:
        passed["CUDA_VISIBLE_DEVICES"] = ""
    return passed


def start(folder: RunFolder, env: dict[str, str], *command: str) -> subprocess.Popen[bytes]:
    """`python -m core.worker`, or `command`, with its output in the folder's logs."""
    with folder.stdout.open("wb") as out, folder.stderr.open("wb") as err:
        command = command or ("-m", "core.worker", str(folder.root))
        return subprocess.Popen([sys.executable, *command], cwd=folder.root, env=env, stdout=out, stderr=err)


def read(folder: RunFolder) -> Ran:
    """What the worker left. Each phase has a row at its start and one at its end, and nothing else."""
    result = read_json(folder.result)
    assert result is not None, folder.stderr.read_text() if folder.stderr.exists() else "no result, no stderr"
    rows = read_json_lines(folder.phases)
    starts, ends = rows[0::2], rows[1::2]
    assert [(row["name"], row["index"]) for row in starts] == [(row["name"], row["index"]) for row in ends]
    assert all(row["t_end"] is None and row["step_end"] is None for row in starts)
    return Ran(folder, result, ends)
