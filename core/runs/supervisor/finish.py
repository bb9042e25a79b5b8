"""What becomes of a run when its worker has gone: its state, its peaks, its events."""

from __future__ import annotations

import logging
import os
import signal
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from core.runfolder.history import write_events
from core.runfolder.intervals import contended
from core.runfolder.jsonio import read_json, read_json_lines
from core.runfolder.layout import RunFolder
from core.runfolder.tables import SAMPLES, read_table
from core.runs.secrets import clean, text_without_tokens
from core.runs.status import Failure, Peak, RunStatus, State
from core.runs.supervisor.logs import bound

logger = logging.getLogger(__name__)

STDERR_TAIL = 2000


def last_phase(folder: RunFolder) -> str | None:
    """The phase in which the worker was last seen: `decode 12`, or `load`."""
    rows = read_json_lines(folder.phases)
    if not rows:
        return None
    return f"{rows[-1]['name']} {rows[-1]['index']}" if rows[-1]["name"] == "decode" else str(rows[-1]["name"])


def outcome(folder: RunFolder, returncode: int | None, memory_kills: int = 0) -> tuple[State, Failure | None]:
    """How the job ended by its own result, else by its exit; `returncode` is None where it cannot be known.

    `memory_kills`: processes that the kernel killed in this control group for want of memory while the run went on.
    """
    result = read_json(folder.result)
    if result and result.get("outcome") in ("finished", "oom", "failed"):
        error = result.get("error")
        return result["outcome"], _failure(error) if error else None
    phase = last_phase(folder)
    where = f" in {phase}" if phase else " before it began"
    if returncode is None:
        return "lost", Failure(
            "lost", f"the worker was gone when the supervisor came back; last seen{where}", None, phase
        )
    if returncode == -signal.SIGKILL and memory_kills > 0:
        said = f"the host ran out of memory: the kernel killed the worker{where} (its counter of such kills rose by"
        return "failed", Failure("host_oom", f"{said} {memory_kills})", None, phase)
    if returncode < 0:
        name = signal.Signals(-returncode).name if -returncode in set(signal.Signals) else f"signal {-returncode}"
        return "failed", Failure("signal", f"the worker was ended by {name}{where}", None, phase)
    said = _tail(folder)
    return "failed", Failure("exit", f"the worker left with exit code {returncode}{where}: {said}", None, phase)


def _failure(error: dict[str, Any]) -> Failure:
    return Failure(
        str(error.get("kind", "exception")),
        text_without_tokens(str(error.get("message", ""))),
        error.get("requested_bytes"),
        error.get("phase"),
        f"out of memory in disguise: {error['reason']}" if error.get("disguised_oom") else None,
    )


def _tail(folder: RunFolder) -> str:
    try:
        with folder.stderr.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - STDERR_TAIL))
            lines = stream.read().decode("utf-8", "replace").strip().splitlines()
    except OSError:
        lines = []
    return text_without_tokens(lines[-1]) if lines else "it printed nothing"


def measured_peak(folder: RunFolder, samples: pa.Table) -> Peak:
    """Highest figures of the run: torch's own counters from the result, the rest from the samples."""
    result = read_json(folder.result) or {}
    counters = result.get("peak") or {}
    resident = _highest(samples, "host_rss")
    seen = resident != 0  # 0: it was gone before it was first looked at, so what it held is unknown
    return Peak(
        counters.get("allocated"),
        counters.get("reserved"),
        _highest(samples, "process_used") if seen else None,
        _highest(samples, "device_used"),
        resident if seen else None,
    )


def _highest(samples: pa.Table, column: str) -> int | None:
    value = pc.max(samples[column]).as_py()
    return None if value is None else int(value)


def finish(folder: RunFolder, status: RunStatus, ended_ns: int) -> RunStatus:
    """Turn torch's history into events.arrow and complete the status. Never raises: what fails is said in it.

    `status` carries the final state already; `ended_ns` is when the worker was seen to have gone (monotonic).
    """
    bound(folder.stdout)
    bound(folder.stderr)
    for log in (folder.stdout, folder.stderr, folder.result, folder.sampler_log):
        clean(log)
    incomplete = status.trace_incomplete
    if folder.snapshot.exists() and not folder.events.exists():
        try:
            write_events(folder)
        except (OSError, ValueError, KeyError, pa.ArrowException) as error:
            logger.exception("events of %s", status.run_id)
            folder.events.unlink(missing_ok=True)
            incomplete = f"the allocator's history could not be converted: {error}"
    seconds = None if status.t0_ns is None else (ended_ns - status.t0_ns) / 1e9
    device = dict(status.device)
    result = read_json(folder.result) or {}
    if isinstance(result.get("device"), dict):
        device |= {name: value for name, value in result["device"].items() if value is not None}
    if result.get("phases_lost"):
        incomplete = incomplete or f"the disk refused {result['phases_lost']} rows of phases.jsonl"
    samples = read_table(folder.samples, SAMPLES)
    return replace(
        status,
        peak=measured_peak(folder, samples),
        seconds=seconds,
        device=device,
        trace_incomplete=incomplete,
        contended=_contended(folder, samples),
    )


def _contended(folder: RunFolder, samples: pa.Table) -> str | None:
    """What other processes did on the card meanwhile; None when they took no more than at the beginning."""
    others = samples["other_processes_used"].cast(pa.float64()).to_numpy(zero_copy_only=False)
    found = contended(samples["t_ns"].to_numpy(), others)
    if not found:
        return None
    grown = (read_json(folder.sampler) or {}).get("foreign") or {}
    who = f" (PID {', '.join(sorted(grown))})" if grown else ""
    most = max(size for _, size in found) / 2**20
    return f"other processes{who} took up to {most:,.1f} MiB more of the card while the run went on"
