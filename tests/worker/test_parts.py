"""Parts of the worker that need torch in the test's own process; imported late, so that collecting stays quick."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from core.runfolder.history import load_snapshot
from core.runfolder.layout import RunFolder
from tests.worker.running import SPEC

pytestmark = pytest.mark.xdist_group("worker")


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


def filled(torch: Any, seed: int) -> Any:
    from core.worker.fill import TiledFill

    with TiledFill(seed), torch.no_grad():
        layer = torch.nn.Linear(1500, 1500, bias=True, dtype=torch.bfloat16)
        torch.nn.init.normal_(layer.weight, mean=0.0, std=0.02)
    return layer


def test_tiled_weights_have_the_distribution_that_was_asked_for(torch: Any) -> None:
    from core.worker.fill import BLOCK

    layer = filled(torch, 0)
    weight = layer.weight.float()
    assert weight.numel() > 2 * BLOCK
    assert weight.std().item() == pytest.approx(0.02, rel=0.01)
    assert weight.mean().item() == pytest.approx(0, abs=1e-4)
    assert torch.isfinite(weight).all()
    assert len(weight.unique(dim=0)) == 1500  # no row is another's copy
    assert torch.equal(layer.weight.view(-1)[:100], layer.weight.view(-1)[BLOCK : BLOCK + 100])
    assert layer.weight.requires_grad
    bound = torch.tensor(1500**-0.5, dtype=layer.bias.dtype).item()  # in bf16 the bound itself rounds up
    assert 0 < layer.bias.abs().max().item() <= bound  # too small for tiles: torch drew it


def test_tiled_weights_depend_on_the_seed_alone(torch: Any) -> None:
    assert torch.equal(filled(torch, 0).weight, filled(torch, 0).weight)
    assert not torch.equal(filled(torch, 0).weight, filled(torch, 1).weight)


def test_inputs(torch: Any) -> None:
    from core.worker.device import Cpu
    from core.worker.inputs import make_inputs

    ids, mask = make_inputs({**SPEC, "batch_size": 3, "prompt_tokens": 5, "padding": 2}, 1000, Cpu())
    assert ids.dtype == mask.dtype == torch.int64
    assert ids.tolist() == [[0, 0, 7, 7, 7], [7] * 5, [7] * 5]
    assert mask.tolist() == [[0, 0, 1, 1, 1], [1] * 5, [1] * 5]
    assert make_inputs(SPEC, 4, Cpu())[0].max() == 3  # within the vocabulary


@pytest.mark.parametrize(
    ("grad_mode", "grad", "inference"),
    [("inference_mode", False, True), ("no_grad", False, False), ("grad", True, False)],
)
def test_modes(torch: Any, grad_mode: str, grad: bool, inference: bool) -> None:
    from core.worker.jobs import modes

    with modes({**SPEC, "grad_mode": grad_mode, "autocast": "bf16"}, "cpu"):
        assert torch.is_grad_enabled() is grad
        assert torch.is_inference_mode_enabled() is inference
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
    assert torch.is_grad_enabled()


def test_a_run_does_the_same_work_whatever_the_config_says(torch: Any) -> None:
    from transformers import AutoConfig

    from core.worker.model import same_work

    settings = same_work(AutoConfig.for_model("llama", eos_token_id=2, pad_token_id=None))
    assert (settings.eos_token_id, settings.pad_token_id, settings.bos_token_id) == (None, 0, 1)
    assert settings.disable_compile is True


def test_architectures_that_deepspeed_cannot_read(torch: Any) -> None:
    from core.worker.op_build import plain_architectures

    assert plain_architectures("9.0a") == "9.0"
    assert plain_architectures("8.0 9.0a+PTX;10.0a") == "8.0 9.0+PTX;10.0"
    assert plain_architectures("8.6+PTX") == "8.6+PTX"


def test_an_op_without_its_compiler_is_refused(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from core.worker import op_build
    from core.worker.errors import Refused

    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "9.0a")
    monkeypatch.setenv("PATH", os.environ["PATH"])
    monkeypatch.setattr(op_build, "_nvcc", lambda: None)
    warnings: list[str] = []
    with pytest.raises(Refused, match="there is no nvcc"):
        op_build.build_op(warnings)
    assert warnings == ["TORCH_CUDA_ARCH_LIST=9.0a became 9.0: DeepSpeed cannot read the letter"]
    assert os.environ["TORCH_CUDA_ARCH_LIST"] == "9.0"


@pytest.mark.parametrize("old", [False, True])
def test_history_is_written_whole(torch: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, old: bool) -> None:
    """The interface of torch 2.1 and later, and that of 2.0, stood in for: a CPU build has neither."""
    from core.worker.history import MAX_ENTRIES, AllocatorHistory

    calls: list[dict[str, Any]] = []

    def record(enabled: Any, *, context: Any = None, stacks: Any = None, max_entries: Any = None) -> None:
        calls.append({"enabled": enabled, "context": context, "max_entries": max_entries})

    def record_2_0(
        enabled: Any, *, record_context: Any = None, trace_alloc_max_entries: Any = None, **other: Any
    ) -> None:
        if "context" in other:
            raise TypeError("unexpected keyword argument 'context'")
        calls.append({"enabled": enabled, "context": record_context, "max_entries": trace_alloc_max_entries})

    snapshot = {"segments": [], "device_traces": [[{"action": "alloc", "addr": 1, "size": 2}]]}
    monkeypatch.setattr(torch.cuda.memory, "_record_memory_history", record_2_0 if old else record)
    monkeypatch.setattr(torch.cuda.memory, "_snapshot", lambda: snapshot)
    folder = RunFolder(tmp_path)
    history = AllocatorHistory(folder, stacks=False)
    history.start()
    assert history.save() == {"entries": 1, "truncated": False}
    assert calls[0] == {
        "enabled": True if old else "all",
        "context": False if old else None,
        "max_entries": MAX_ENTRIES,
    }
    assert calls[1]["enabled"] is None  # recording has ended
    assert load_snapshot(folder.snapshot) == snapshot
    assert [path.name for path in tmp_path.iterdir()] == ["snapshot.pickle"]


def test_devices(torch: Any) -> None:
    from core.worker.device import find_device
    from core.worker.errors import Refused

    assert find_device("cpu").name == "cpu"
    assert find_device("cuda:GPU-1b2c").name == "cuda:0"
    with pytest.raises(Refused, match="not on 'sim:a100'"):
        find_device("sim:a100")
