"""`ls`, `show`, `compare`: what was recorded."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Annotated

import typer

from core.cli.output import JsonFlag, print_json, print_table, size
from core.cli.report import run_report
from core.cli.run import print_reports
from core.explain.breakdown import breakdown
from core.explain.document import explained
from core.explain.evidence import read_evidence
from core.runs.home import open_home
from core.runs.store import Store
from core.spec.differences import differing_fields

RunIds = Annotated[list[str], typer.Argument(help="Run ids, or experiment ids for all their runs.", show_default=False)]


def ls(
    text: Annotated[str, typer.Argument(help="Only runs whose id, title, note or model has this text.")] = "",
    state: Annotated[str | None, typer.Option(help="Only runs in this state.")] = None,
    limit: Annotated[int, typer.Option(help="At most this many.")] = 50,
    json_: JsonFlag = False,
) -> None:
    """List recorded runs, newest first."""
    rows = Store(open_home()).list_runs(text=text, state=state, limit=limit)
    if json_:
        print_json({"runs": [{**row._asdict(), "peak": asdict(row.peak)} for row in rows]})
        return
    if not rows:
        print("no runs yet: python -m core run --model tiny-llama --device cpu")
        return
    print_table(
        ["run", "title", "state", "model", "device", "allocated", "reserved", "device used", "when"],
        [
            [
                row.run_id,
                row.title or row.label,
                row.state,
                row.model,
                row.device_name or row.device,
                size(row.peak.allocated),
                size(row.peak.reserved),
                size(row.peak.device_used),
                time.strftime("%Y-%m-%d %H:%M", time.localtime(row.submitted_at)),
            ]
            for row in rows
        ],
    )


def show(run: RunIds, json_: JsonFlag = False) -> None:
    """Show runs: their specs, phases, peaks and errors."""
    home = open_home()
    reports = [run_report(home.run(run_id)) for run_id in Store(home).resolve(run)]
    if json_:
        print_json({"runs": reports})
        return
    print_reports(reports, {})
    for report in reports:
        print(f"\n{report['id']}")
        for name, value in (report["spec"] or {}).items():
            print(f"  {name:28} {value}")


def compare(run: RunIds, json_: JsonFlag = False) -> None:
    """Lay runs side by side: the fields in which their specs differ, and their peaks. --json explains them too."""
    home = open_home()
    folders = [home.run(run_id) for run_id in Store(home).resolve(run)]
    reports = [run_report(folder) for folder in folders]
    differing = differing_fields([report["spec"] or {} for report in reports])
    if json_:
        evidence = [read_evidence(folder) for folder in folders]
        explanation = explained(evidence, [breakdown(one) for one in evidence])
        print_json({"runs": reports, "differing_fields": differing, **explanation})
        return
    rows = [[name, *(str(value) for value in values)] for name, values in differing.items()]
    rows += [
        [f"peak {figure}", *(size((report["peak"] or {}).get(figure)) for report in reports)]
        for figure in ("allocated", "reserved", "process_used", "device_used", "host_rss")
    ]
    rows.append(["state", *(report["state"] for report in reports)])
    print_table(["", *(report["id"] for report in reports)], rows)
