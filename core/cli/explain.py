"""`explain`: where the memory of runs is, what differs between them, and what to change."""

from __future__ import annotations

from typing import Annotated

import typer

from core.cli.inspect import RunIds
from core.cli.output import JsonFlag, print_json, print_table, size
from core.explain.breakdown import Breakdown, breakdown
from core.explain.categories import BY_KEY
from core.explain.document import explained
from core.explain.evidence import read_evidence
from core.runs.home import open_home
from core.runs.store import Store


def explain(
    run: RunIds,
    findings: Annotated[bool, typer.Option(help="Say what stands out, and what would change it.")] = True,
    json_: JsonFlag = False,
) -> None:
    """Break runs down at their peak (or the request that failed); of two runs, the difference too."""
    home = open_home()
    evidence = [read_evidence(home.run(run_id)) for run_id in Store(home).resolve(run)]
    found = [breakdown(one) for one in evidence]
    document = explained(evidence, found)
    if not findings:
        document["findings"] = []
    if json_:
        print_json(document)
        return
    _print_breakdowns(found)
    if document["difference"]:
        pair = document["difference"]
        print(f"\n{pair['a']} − {pair['b']}")
        rows = [[BY_KEY[term["name"]].label, _signed(term["bytes"])] for term in pair["terms"]]
        print_table(["", "difference"], [*rows, ["total", _signed(pair["total"])]])
    for finding in document["findings"]:
        print(f"\n{finding['run']}: {finding['text']}")
        if finding["change"]:
            flags = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in finding["change"].items())
            print(f"  change: {flags}")
        if finding["advice"]:
            print(f"  {finding['advice']}")


def _print_breakdowns(found: list[Breakdown]) -> None:
    keys = [key for key in BY_KEY if any(key in one.terms for one in found)]
    rows = [[BY_KEY[key].label, *(size(one.terms.get(key, 0)) for one in found)] for key in keys]
    rows.append(["total", *(size(one.total) for one in found)])
    rows.append(["of", *(one.measure for one in found)])
    rows.append(["at", *(f"{one.phase or 'rest'}, step {one.step:.2f}" for one in found)])
    if any(one.request for one in found):
        requests = [f"{size(r.size)} {BY_KEY[r.category].label}" if (r := one.request) else "" for one in found]
        rows.append(["the request that failed", *requests])
    print_table(["", *(one.run_id for one in found)], rows)
    for one in found:
        for note in one.notes:
            print(f"{one.run_id}: {note}")


def _signed(value: int) -> str:
    return f"{'+' if value > 0 else '−'}{size(abs(value))}" if value else size(0)
