"""The engine that runs the model: transformers itself, or DeepSpeed around it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from core.worker.device import Device
from core.worker.phases import PhaseRecorder


class Engine(Protocol):
    """What a job needs of an engine."""

    needs_process_group: bool

    def build(self, recorder: PhaseRecorder) -> None:
        """Whatever is compiled before the model is handed over, in phases of its own."""

    def take(self, model: Any, recorder: PhaseRecorder) -> Any:
        """The model as the engine runs it, on the device."""

    def before_repeat(self) -> None:
        """What the engine's own `generate` does first."""

    def report(self, stdout_log: Path) -> dict[str, Any] | None:
        """What the engine did, for result.json; None when there is nothing to say."""

    def release(self) -> None:
        """Give back what the engine took outside PyTorch."""


class TransformersEngine:
    """The model as transformers made it: nothing to build, nothing to take, no phase of its own."""

    needs_process_group = False

    def build(self, recorder: PhaseRecorder) -> None:
        pass

    def take(self, model: Any, recorder: PhaseRecorder) -> Any:
        return model

    def before_repeat(self) -> None:
        pass

    def report(self, stdout_log: Path) -> dict[str, Any] | None:
        return None

    def release(self) -> None:
        pass


def find_engine(spec: dict[str, Any], device: Device, warnings: list[str]) -> Engine:
    """The engine that `spec` names, imported. Raises Refused when it is not installed or cannot do what is asked."""
    if spec["engine"] == "transformers":
        return TransformersEngine()
    from core.worker.deepspeed_engine import DeepSpeedEngine, check_deepspeed

    check_deepspeed(spec, device)
    return DeepSpeedEngine(spec, device, warnings)
