"""Causes that follow from odd figures: sizes no tensor has, more held than there is, refused although free."""

from __future__ import annotations

from collections.abc import Iterator

from core.oom.account import refused_although_free, repeated_bytes
from core.oom.case import Case, Cause
from core.plots.units import GIB, size

ABSURD = 2**50


def figure_causes(case: Case) -> Iterator[Cause]:
    """Of figures that cannot be what they seem: explained, not believed."""
    error, total = case.error, case.error.total_bytes
    asked = error.requested_bytes
    if "requested_bytes" in error.not_values or (asked or 0) >= ABSURD or (asked and total and asked > 1000 * total):
        pattern = repeated_bytes(asked, error.step_bytes) if asked else None
        read = f" It is 0x{pattern:016x}: the same byte eight times, so flags were read as a number." if pattern else ""
        read = " It is just below 2^64: a negative number." if pattern == 2**64 - 1 else read
        yield Cause("size_computed_wrong", 95, f"No tensor has this size: it was computed wrong.{read}")
    held = max(error.allocated_bytes or 0, error.process_bytes or 0, error.reserved_bytes or 0)
    if total and held > 1.005 * total:
        windows = case.facts.platform in ("windows", "wsl")
        yield Cause(
            "windows_shared_memory_spill",
            90 if windows else 82,
            f"{size(held)} are held on a card of {size(total)}: the Windows driver moved the rest to system memory.",
        )
    allowed, use = error.allowed_bytes, case.holders.reserved
    if allowed and use is not None and asked and error.backend != "mps" and use + asked > allowed:
        yield Cause(
            "memory_limit_set_by_user", 84, f"PyTorch may use {size(allowed)} here (set_per_process_memory_fraction)."
        )
    elif refused_although_free(error):
        yield from _refused_although_free(case)


def _refused_although_free(case: Case) -> Iterator[Cause]:
    error, facts = case.error, case.facts
    asked, free = error.requested_bytes or 0, error.free_bytes or 0
    told = f"{size(free)} were free and {size(asked)} were refused"
    large = asked >= GIB or asked > free / 4
    yield Cause(
        "other_process_race",
        56 + (14 if case.shares_card else 0) + (0 if large else 4),
        f"{told}: free is read after the failure, so another process may have held it and let it go.",
    )
    windows = facts.platform in ("windows", "wsl") or bool(facts.mig)
    yield Cause(
        "driver_contiguity_or_address_space",
        56 + (14 if windows else 0) + (4 if large else 0),
        f"{told}: the driver may lack one piece, or address space, of that size.",
    )
