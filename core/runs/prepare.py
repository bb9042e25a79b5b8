"""From what a user chose to runs that can be queued: device found, model found, everything checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.devices.host import host_memory_bytes
from core.devices.registry import Devices, list_devices
from core.runs.settings import Settings
from core.runs.submit import PreparedRun
from core.spec.checks import Machine, check
from core.spec.matrix import Matrix, shown
from core.spec.model_source import ModelSource, resolve
from core.spec.run_spec import RunSpec


@dataclass(frozen=True)
class Preparation:
    """Checked runs, and what the user should know about them before they start."""

    runs: tuple[PreparedRun, ...]
    varying: tuple[str, ...]
    warnings: tuple[str, ...]


def prepare(matrix: Matrix, settings: Settings, devices: Devices | None = None, force: bool = False) -> Preparation:
    """Check every run of `matrix`. With `force`, a job that seems too large for the machine is let through.

    Raises InvalidSpec, NotAvailable or NoSuchDevice for the first run that cannot be executed here.
    """
    devices = devices or list_devices()
    sources: dict[tuple[str, str | None, str], ModelSource] = {}
    runs, warnings = [], []
    for given, label in zip(matrix.specs, matrix.labels, strict=True):
        settings.environment(given.environment)
        spec = _placed(given, devices)
        key = (spec.model, spec.revision, spec.weights)
        if key not in sources:
            sources[key] = resolve(spec)
        said = check(spec, sources[key], Machine(host_memory_bytes(), _card_bytes(spec, devices)), force=force)
        runs.append(PreparedRun(spec, sources[key], tuple(said), label))
        warnings.extend(said)
    return Preparation(tuple(runs), matrix.varying, tuple(dict.fromkeys(warnings)))


def _card_bytes(spec: RunSpec, devices: Devices) -> int | None:
    return devices.find(spec.device).total_bytes if spec.device != "cpu" else None


def _placed(spec: RunSpec, devices: Devices) -> RunSpec:
    """The spec with its device as it is stored: `cuda:0` means a card by its place, a run has to name the card."""
    return spec.replace(device=devices.find(spec.device).id)


def experiment_title(runs: Sequence[PreparedRun], varying: Sequence[str]) -> str:
    """A title for an experiment that was given none: `wrap: none → ddp · llama-7b`."""
    first = runs[0].spec
    if not varying:
        return f"{first.model} · {first.batch_size} × {first.prompt_tokens} + {first.new_tokens}"
    changes = []
    for name in varying:
        values = dict.fromkeys(shown(getattr(run.spec, name)) for run in runs)
        changes.append(f"{name}: {' → '.join(list(values)[:4])}{' → …' if len(values) > 4 else ''}")
    model = "" if "model" in varying else f" · {first.model}"
    return ", ".join(changes) + model
