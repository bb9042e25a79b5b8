"""`serve`: open the app."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from core.cli.output import JsonFlag, print_json
from core.runs.environment import PROJECT_ROOT
from core.runs.home import open_home


def serve(
    port: Annotated[int, typer.Option(help="The port to listen on.")] = 8501,
    open_browser: Annotated[bool, typer.Option("--open", help="Open a browser window.")] = False,
    json_: JsonFlag = False,
) -> None:
    """Serve the app on http://127.0.0.1:8501, for this machine only."""
    if json_:
        print_json({"url": f"http://127.0.0.1:{port}"})
        sys.stdout.flush()
    open_home()  # a data folder that cannot be written is said here, not on the first page
    command = [
        sys.executable,
        "-m",
        "streamlit",
        "run",
        str(PROJECT_ROOT / "streamlit_app.py"),
        "--server.port",
        str(port),
        "--server.headless",
        "false" if open_browser else "true",
    ]
    os.chdir(PROJECT_ROOT)  # Streamlit reads .streamlit/config.toml of the working folder
    os.execv(sys.executable, command)  # noqa: S606  # the server takes this process's place, signals reach it directly
