"""`run`: queue runs, follow them, report them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from core.cli.follow import follow
from core.cli.options import with_spec_flags
from core.cli.output import JsonFlag, print_json, print_table, size
from core.cli.report import run_report
from core.runs.home import open_home
from core.runs.prepare import experiment_title, prepare
from core.runs.settings import read_settings
from core.runs.submit import submit
from core.spec.errors import InvalidSpec
from core.spec.experiment import load_experiment
from core.spec.matrix import expand

EXIT_CODES = {"finished": 0, "oom": 0, "failed": 1, "lost": 1, "timed_out": 124, "cancelled": 130}
"""An out-of-memory run is a result. The worst of several runs decides, in the order of the codes."""


def command() -> Callable[..., Any]:
    """The command with a flag for each field of a RunSpec."""
    return with_spec_flags(run)


def run(
    choices: dict[str, list[str]],
    file: Annotated[Path | None, typer.Option(help="An experiment as YAML or JSON; flags override it.")] = None,
    title: Annotated[str, typer.Option(help="A title for the experiment.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Run a job that seems too large for this machine.")] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Queue the runs and return at once.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check and list the runs, start none.")] = False,
    json_: JsonFlag = False,
) -> None:
    """Run generate jobs and record where their memory goes. A comma list in any flag makes a matrix."""
    if file is None and "model" not in choices:
        raise InvalidSpec("which model? give --model (a preset, a folder or a hub id) or --file")
    home = open_home()
    note = ""
    if file is not None:
        experiment = load_experiment(file, choices)
        matrix, title, note = experiment.matrix, title or experiment.title, experiment.note
    else:
        matrix = expand(choices)
    preparation = prepare(matrix, read_settings(home), force=force)
    for warning in preparation.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    runs = preparation.runs
    if dry_run:
        rows = [{"label": run.label, "spec": run.spec.to_dict()} for run in runs]
        print_json({"runs": rows}) if json_ else print_table(["run"], [[run.label or run.spec.model] for run in runs])
        return
    submitted = submit(home, runs, title or experiment_title(runs, preparation.varying), note)
    print(f"{len(runs)} {'run' if len(runs) == 1 else 'runs'}, experiment {submitted.experiment_id}", file=sys.stderr)
    if detach:
        document = {
            "experiment": submitted.experiment_id,
            "runs": [{"id": i, "state": "queued"} for i in submitted.run_ids],
        }
        print_json(document) if json_ else print("\n".join(submitted.run_ids))
        return
    labels = {run_id: run.label for run_id, run in zip(submitted.run_ids, runs, strict=True)}
    follow(home, labels)
    reports = [run_report(home.run(run_id)) for run_id in submitted.run_ids]
    if json_:
        print_json({"experiment": submitted.experiment_id, "runs": reports})
    else:
        print_reports(reports, labels)
    raise typer.Exit(max(EXIT_CODES[report["state"]] for report in reports))


def print_reports(reports: list[dict[str, Any]], labels: dict[str, str]) -> None:
    """One line a run with its peaks, and what went wrong below it."""
    rows = []
    for report in reports:
        peak = report["peak"] or {}
        figures = (
            size(peak.get(name)) for name in ("allocated", "reserved", "process_used", "device_used", "host_rss")
        )
        seconds = "–" if report["seconds"] is None else f"{report['seconds']:.1f} s"
        rows.append([report["id"], labels.get(report["id"], ""), report["state"], *figures, seconds])
    print_table(["run", "", "state", "allocated", "reserved", "process", "device", "host RSS", "time"], rows)
    for report in reports:
        if report["error"]:
            print(f"{report['id']}: {report['error']['message'].strip().splitlines()[0]}")
            if report["error"]["reason"]:
                print(f"{report['id']}: {report['error']['reason']}")
