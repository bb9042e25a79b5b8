"""The reproduction script repeats a run with torch and transformers alone."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from core.export.script import script_of
from core.runfolder.jsonio import write_json
from core.runfolder.layout import RunFolder
from core.runs.gallery import recordings
from core.runs.home import open_home
from core.spec.errors import InvalidSpec
from core.spec.model_source import resolve
from core.spec.run_spec import parse_spec
from tests.worker.running import environment, read, start

HAS_CARD = Path("/proc/driver/nvidia/version").exists()


def folder_of(root: Path, **fields: Any) -> RunFolder:
    spec = parse_spec({"model": "tiny-llama", "device": "cpu", "prompt_tokens": 16, "new_tokens": 4, **fields})
    source = resolve(spec)
    folder = RunFolder(root)
    folder.model.mkdir(parents=True)
    folder.model_config.write_text(json.dumps(source.config))
    about = {"kind": "preset", "name": spec.model, "path": None}
    write_json(folder.spec, {"run_id": root.name, "spec": spec.to_dict(), "source": about})
    return folder


def executed(folder: RunFolder, bare: Path) -> dict[str, int]:
    """What the script prints in an empty folder, where nothing of this project can be imported."""
    path = bare / "repeat.py"
    path.write_text(script_of(folder))
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-P", str(path)], cwd=bare, env=env, capture_output=True, text=True, timeout=250, check=True
    )
    printed: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return printed


VARIANTS: tuple[dict[str, Any], ...] = (
    {"dtype": "bf16", "batch_size": 4},
    {"wrap": "ddp", "job": "loop", "grad_mode": "grad", "dtype": "fp32", "autocast": "bf16"},
    {"num_beams": 2, "padding": 3, "cache_implementation": "static", "repeats": 2},
    {"do_sample": True, "temperature": 0.5, "top_k": 5, "job": "generate"},
    {"job": "forward", "use_cache": False},
)


@pytest.mark.parametrize("fields", VARIANTS, ids="-".join)
def test_the_script_of_a_cpu_run_gives_its_peak(fields: dict[str, Any], tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "run", **fields)
    _, code, usage = os.wait4(start(folder, environment()).pid, 0)
    assert code == 0
    assert read(folder).result["outcome"] == "finished"
    bare = tmp_path / "bare"
    bare.mkdir()
    # the libraries are most of it, and their pages come and go by a few MiB
    assert executed(folder, bare)["host_rss"] == pytest.approx(usage.ru_maxrss * 1024, rel=0.1)


@pytest.mark.gpu
@pytest.mark.skipif(not HAS_CARD, reason="no NVIDIA driver on this machine")
@pytest.mark.parametrize("fields", VARIANTS, ids="-".join)
def test_the_script_of_a_card_gives_its_peaks_to_the_byte(fields: dict[str, Any], tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "run", **{**fields, "device": "cuda:0"})
    worker = start(folder, environment(card=True))
    assert worker.wait(200) == 0
    bare = tmp_path / "bare"
    bare.mkdir()
    assert executed(folder, bare) == read(folder).result["peak"]


@pytest.mark.parametrize("run_id", [run_id for recording in recordings() for run_id in recording.run_ids])
def test_the_script_of_a_recorded_run_is_python_and_self_contained(run_id: str, tmp_path: Path) -> None:
    source = script_of(open_home(tmp_path).run(run_id))
    tree = ast.parse(source)
    imported = {
        (node.module or "" if isinstance(node, ast.ImportFrom) else node.names[0].name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert imported <= {"json", "sys", "os", "subprocess", "torch", "transformers", "deepspeed"}
    assert "token" not in {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def test_weights_that_were_mapped_cannot_be_repeated(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "run")
    document = json.loads(folder.spec.read_text())
    document["spec"]["placement"] = "device_map"
    folder.spec.write_text(json.dumps(document))
    with pytest.raises(InvalidSpec, match="device_map"):
        script_of(folder)
