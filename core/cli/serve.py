"""`serve`: open the app."""

from __future__ import annotations

import os
import socket
import sys
from typing import Annotated
from urllib.parse import urlsplit

import typer

from core.cli.output import JsonFlag, print_json
from core.runs.access import OPEN_TO_ALL, PUBLIC_URL, authentication, is_loopback
from core.runs.environment import PROJECT_ROOT
from core.runs.home import open_home
from core.spec.errors import InvalidSpec

LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")


def serve(
    port: Annotated[int, typer.Option(help="The port to listen on.")] = 8501,
    address: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 for every one.")] = "127.0.0.1",
    allow_host: Annotated[list[str] | None, typer.Option(help="A further host name by which visitors come.")] = None,
    without_authentication: Annotated[
        bool, typer.Option("--without-authentication", help="Let everyone who reaches the port start runs here.")
    ] = False,
    open_browser: Annotated[bool, typer.Option("--open", help="Open a browser window.")] = False,
    json_: JsonFlag = False,
) -> None:
    """Serve the app on http://127.0.0.1:8501, for this machine only; docs/serving.md says how to let others in."""
    login = authentication()
    if not is_loopback(address) and login is None and not without_authentication:
        raise InvalidSpec(
            f"on {address} other machines could start runs here, and there is no authentication: configure [auth] in "
            ".streamlit/secrets.toml (docs/serving.md), or say --without-authentication"
        )
    if json_:
        print_json({"url": f"http://{address}:{port}"})
        sys.stdout.flush()
    open_home()  # a data folder that cannot be written is said here, not on the first page
    command = [
        *(sys.executable, "-m", "streamlit", "run", str(PROJECT_ROOT / "streamlit_app.py")),
        *("--server.address", address),
        *("--server.port", str(port)),
        *("--server.headless", "false" if open_browser else "true"),
    ]
    for host in host_names(address, allow_host or []):
        command += ["--server.allowedHosts", host]
    os.chdir(PROJECT_ROOT)  # Streamlit reads .streamlit/config.toml of the working folder
    os.environ[OPEN_TO_ALL] = "1" if without_authentication else ""
    os.execv(sys.executable, command)  # noqa: S606  # the server takes this process's place, signals reach it directly


def host_names(address: str, further: list[str]) -> list[str]:
    """The names by which the server answers: any other in a request is somebody else's page that leads here."""
    names = [*LOOPBACK_HOSTS, *further]
    public = urlsplit(os.environ.get(PUBLIC_URL, "")).hostname
    if public:
        names.append(public)
    if not is_loopback(address):
        names += [socket.gethostname(), socket.getfqdn()]
        names += [] if address in ("0.0.0.0", "::") else [address.strip("[]")]  # noqa: S104  # compared, not bound
    return list(dict.fromkeys(names))
