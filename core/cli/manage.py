"""`cancel` and `reindex`."""

from __future__ import annotations

from typing import Annotated

import typer

from core.cli.inspect import RunIds
from core.cli.output import JsonFlag, print_json
from core.runs.cancel import cancel
from core.runs.home import open_home
from core.runs.store import Store
from core.spec.errors import InvalidSpec


def cancel_runs(
    run: Annotated[RunIds | None, typer.Argument(help="Run ids, or experiment ids for all their runs.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every run that has not ended.")] = False,
    json_: JsonFlag = False,
) -> None:
    """Cancel runs, queued or running, with every process of theirs. Cancelling twice changes nothing."""
    home = open_home()
    store = Store(home)
    if not run and not everything:
        raise InvalidSpec("which runs? name their ids, or give --all")
    ids = [row.run_id for row in store.queue()] if everything else store.resolve(run or [])
    marked = cancel(home, ids)
    if json_:
        print_json({"cancelled": marked, "had_ended": [run_id for run_id in ids if run_id not in marked]})
    else:
        print(
            "\n".join(f"{i} {'is being cancelled' if i in marked else 'had ended already'}" for i in ids) or "no runs"
        )


def reindex(json_: JsonFlag = False) -> None:
    """Build the index of runs again from the run folders."""
    count = Store(open_home()).reindex()
    print_json({"runs": count}) if json_ else print(f"{count} runs indexed")
