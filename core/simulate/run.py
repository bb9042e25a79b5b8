"""A simulated run, from its spec to its folder."""

from __future__ import annotations

import os
import platform
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers

from core.runfolder.layout import RunFolder
from core.simulate.allocator.settings import parse_settings
from core.simulate.job import Traced, trace
from core.simulate.record import facts, write_folder
from core.simulate.replay import Replay, replay
from core.spec.cards import CARDS_VARIABLE, Card, find_card
from core.worker.report import Report, installed_version

MIB = 2**20


def simulate(document: dict[str, Any], folder: RunFolder, report: Report, t0_ns: int) -> None:
    """Trace, replay and record. An out-of-memory error is a result. Raises what the job raises, NotSimulated first."""
    spec = document["spec"]
    cards = os.environ.get(CARDS_VARIABLE)
    card = find_card(spec["device"], Path(cards) if cards else None)
    report.set(versions=_versions(), device=_device(card))
    traced = trace(spec, document["source"], folder.model, as_found(spec, card))
    report.warnings += traced.warnings
    done = replayed(spec, traced, card)
    times = write_folder(folder, traced, done, t0_ns)
    allocator = done.allocator
    report.set(
        outcome="finished",
        model=traced.model,
        peak={"allocated": allocator.peak_allocated, "reserved": allocator.peak_reserved},
        history={"entries": len(traced.stream.events), "truncated": False},
        simulated=facts(traced, done, times),
    )
    if traced.deepspeed is not None:
        report.set(deepspeed=_deepspeed(traced.deepspeed, done))
    if done.failure is not None:
        report.set(outcome=_outcome(done), error=_error(traced, done))


def as_found(spec: dict[str, Any], card: Card) -> Card:
    """Where capacity_mib leaves room for another process, that one has what the driver takes once for all of them."""
    if spec["capacity_mib"] is None:
        return card
    return replace(card, libraries=replace(card.libraries, context=card.libraries.context_beside_others))


def replayed(spec: dict[str, Any], traced: Traced, card: Card) -> Replay:
    """capacity_mib is what is free before the process starts; without it all of the card is."""
    free = int(spec["capacity_mib"]) * MIB if spec["capacity_mib"] is not None else card.memory_bytes
    return replay(traced.stream, total=card.memory_bytes, free=free, settings=parse_settings(spec["allocator"]))


def _deepspeed(facts: dict[str, Any], done: Replay) -> dict[str, Any]:
    """As a worker reports it; what DeepSpeed would print is known without its printing it."""
    taken = done.workspace
    banner = {
        "free_bytes": taken["free_bytes"],
        "requested_bytes": taken["taken_bytes"],
        "max_tokens": taken["tokens"],
        "lines": [],
    } if taken else None  # fmt: skip
    workspace = {"free_bytes": taken["free_bytes"], "taken_bytes": taken["taken_bytes"]} if taken else None
    return {**facts, "workspace": workspace, "banner": banner}


def _outcome(done: Replay) -> str:
    return "oom" if done.failure is not None and done.failure.kind == "oom" else "failed"


def _error(traced: Traced, done: Replay) -> dict[str, Any]:
    """As a worker describes an error (core.worker.errors), with the tensor that was wanted."""
    failure = done.failure
    assert failure is not None, "asked for a failure that did not happen"
    phase, token = _where(done)
    site = None
    if failure.number is not None and failure.number < len(traced.stream.sites):
        site = traced.stream.places[traced.stream.sites[failure.number]]
    error: dict[str, Any] = {
        "kind": failure.kind,
        "type": "OutOfMemoryError" if failure.kind == "oom" else "RuntimeError",
        "message": failure.message,
        "requested_bytes": failure.asked if failure.kind == "oom" and failure.number is not None else None,
        "phase": phase,
        "traceback": (site.origin or "").split(" < ") if site else [],
        "token": token,
        "tensor": site._asdict() if site else None,
    }
    if failure.kind == "exception":
        error |= {"disguised_oom": True, "reason": "a library could not get memory from the driver"}
    return error


def _where(done: Replay) -> tuple[str | None, int]:
    """The phase in which it failed, as it is shown, and the token that was being made (0 in the prefill)."""
    phase, token = None, 0
    for level in done.levels:
        if level.mark.kind == "phase":
            phase = level.mark.name
            token = 0
        elif level.mark.kind == "step":
            token += 1
            phase = f"decode {token - 1}"
    return phase, token


def _device(card: Card) -> dict[str, Any]:
    return {
        "name": card.name,
        "uuid": None,
        "total_bytes": card.memory_bytes,
        "capability": card.capability,
        "sm_count": card.sm_count,
        "known": {"memory": card.memory_known, "context": card.context_known},
    }


def _versions() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "deepspeed": installed_version("deepspeed"),
        "cuda": None,
        "driver": None,
    }
