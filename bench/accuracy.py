"""`python -m bench.accuracy [--write]`: simulate every reference configuration and compare with what was measured.

The measurements are others' (bench/reference). `--write` puts the table into docs/accuracy.md and the figures into
bench/accuracy.json, which a test keeps true.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.configurations import Configuration, configurations
from core.simulate.allocator.settings import parse_settings
from core.simulate.job import trace
from core.simulate.replay import Replay, replay
from core.simulate.run import as_found
from core.spec.cards import find_card

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).with_name("accuracy.json")
DOCUMENT = ROOT / "docs" / "accuracy.md"
BEGIN, END = "<!-- begin of the table -->", "<!-- end of the table -->"
MIB = 2**20


@dataclass(frozen=True)
class Row:
    """Bytes. verdict and request: what happened, and what the failing allocation asked of the driver."""

    name: str
    allocated: int
    allocated_measured: int
    reserved: int
    reserved_measured: int
    device: int
    device_measured: int | None
    verdict: str
    verdict_measured: str
    retries: int
    retries_measured: int
    seconds: float


def simulated(configuration: Configuration, root: Path) -> tuple[Replay, float]:
    """The replay of one configuration, and the seconds it took from its spec to its end."""
    card = find_card("h200")
    spec = configuration.spec.to_dict()
    started = time.perf_counter()
    traced = trace(spec, {"kind": "preset"}, configuration.folder(root), as_found(spec, card))
    free = configuration.capacity or card.memory_bytes
    done = replay(traced.stream, total=card.memory_bytes, free=free, settings=parse_settings(spec["allocator"]))
    return done, time.perf_counter() - started


def row_of(configuration: Configuration, done: Replay, seconds: float) -> Row:
    measured, allocator = configuration.measured, done.allocator
    error = measured.get("error") or ""
    wanted = error.partition("Tried to allocate ")[2].partition(". ")[0]
    got = str(done.failure.message).partition("Tried to allocate ")[2].partition(". ")[0] if done.failure else ""
    outside = measured.get("outside_allocator")
    last = measured["marks"][-1][-2] if measured.get("marks") else None
    used = outside + last if outside is not None and last is not None and not configuration.bound else None
    return Row(
        configuration.name,
        allocator.peak_allocated,
        measured["peak_allocated"],
        allocator.peak_reserved,
        measured["peak_reserved"],
        done.driver.used,
        used,
        f"oom, {got}" if done.failure else "fits",
        f"oom, {wanted}" if error else "fits",
        allocator.retries,
        int(measured.get("retries") or 0),
        round(seconds, 2),
    )


def rows() -> list[Row]:
    found = []
    with tempfile.TemporaryDirectory() as root:
        for configuration in configurations():
            done, seconds = simulated(configuration, Path(root))
            row = row_of(configuration, done, seconds)
            print(line_of(row), flush=True)
            found.append(row)
    return found


def line_of(row: Row) -> str:
    # peaks of a run that ran out of memory are those up to its last mark, so they are not comparable
    failed = row.verdict_measured != "fits"
    device = "–" if row.device_measured is None else f"{row.device / MIB:,.1f} / {row.device_measured / MIB:,.1f}"
    allocated = "–" if failed else f"{row.allocated / MIB:,.1f} ({row.allocated - row.allocated_measured:+,} B)"
    reserved = (
        "–" if failed else f"{row.reserved / MIB:,.1f} ({(row.reserved - row.reserved_measured) / MIB:+,.0f} MiB)"
    )
    verdict = row.verdict if row.verdict == row.verdict_measured else f"{row.verdict}, measured {row.verdict_measured}"
    return f"| {row.name} | {allocated} | {reserved} | {device} | {verdict} | {row.retries} / {row.retries_measured} |"


def summary(found: list[Row]) -> list[str]:
    fits = [row for row in found if row.verdict_measured == "fits"]
    free = [row for row in fits if not row.name.startswith("capped/")]
    allocated = [abs(row.allocated - row.allocated_measured) for row in fits]
    reserved = [abs(row.reserved - row.reserved_measured) for row in free]
    device = [abs(row.device - row.device_measured) for row in found if row.device_measured is not None]
    bound = [row for row in found if row.name.startswith("capped/")]
    right = sum(row.verdict == row.verdict_measured and row.retries == row.retries_measured for row in bound)
    return [
        f"* Peak allocated: off by {statistics.median(allocated):,.0f} bytes (median), {max(allocated):,} (worst).",
        f"* Peak reserved: exact in {sum(not off for off in reserved)} of {len(reserved)} on the whole card, at worst "
        f"off by {max(reserved) / MIB:,.1f} MiB.",
        f"* Device used at the end: off by {statistics.median(device) / MIB:,.1f} MiB in the median, "
        f"{max(device) / MIB:,.1f} MiB at worst.",
        f"* With only a part of the card free: verdict, failing request and number of retries right in {right} of "
        f"{len(bound)}.",
    ]


def table(found: list[Row]) -> str:
    head = "| configuration | peak allocated, MiB | peak reserved, MiB | device at the end, MiB | verdict | retries |"
    return "\n".join([head, "| --- " * 6 + "|", *(line_of(row) for row in found), "", *summary(found)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/accuracy.md and bench/accuracy.json")
    arguments = parser.parse_args()
    found = rows()
    print("\n".join(summary(found)))
    if arguments.write:
        RESULTS.write_text(json.dumps([asdict(row) for row in found], indent=1) + "\n", encoding="utf-8")
        text = DOCUMENT.read_text(encoding="utf-8")
        before, _, rest = text.partition(BEGIN)
        after = rest.partition(END)[2]
        DOCUMENT.write_text(f"{before}{BEGIN}\n{table(found)}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
