"""Prefill and decode as phases, from a hook on the model's forward pass."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from core.worker.phases import PhaseRecorder


class ForwardSteps:
    """Each forward pass of one module is a step.

    The prefill lasts from the start of the job to the begin of its second forward pass, a decode from the begin of its
    pass to the begin of the next or the end of the job: what happens between two passes (sampling, growing the mask)
    belongs to the step before it, so the phases tile the job without a gap.
    """

    def __init__(self, recorder: PhaseRecorder) -> None:
        self._recorder = recorder
        self._passes = 0
        self._handle: Any = None

    def attach(self, module: Any) -> None:
        self._handle = module.register_forward_pre_hook(self._before_forward)

    def detach(self) -> None:
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    @contextlib.contextmanager
    def repeat(self) -> Iterator[None]:
        """One execution of the job."""
        self._passes = 0
        with self._recorder.phase("prefill", steps=1):
            yield

    def _before_forward(self, *_: Any) -> None:
        if self._passes:
            self._recorder.advance("decode", steps=1)
        self._passes += 1
