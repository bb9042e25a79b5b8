"""A server of the app in a process of its own, and sessions on it without a browser, in Streamlit's own protocol."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import connect
from websockets.typing import Origin, Subprotocol

from core.runs.home import DataHome

ROOT = Path(__file__).resolve().parents[2]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def served(
    home: DataHome, *arguments: str, variables: Mapping[str, str] | None = None, command: Sequence[str] = ()
) -> Iterator[int]:
    """`python -m core serve` on a data folder until the block ends; its port."""
    port = free_port()
    line = command or [sys.executable, "-m", "core", "serve", "--port", str(port), *arguments]
    line = [part.replace("PORT", str(port)) for part in line]
    environment = {**os.environ, "VRAMSCOPE_HOME": str(home.root), **(variables or {})}
    process = subprocess.Popen(line, cwd=ROOT, env=environment)
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=5).close()
                break
            except OSError:
                assert process.poll() is None, "the server has ended"
                assert time.monotonic() < deadline, "the server does not answer"
                time.sleep(0.2)
        yield port
    finally:
        process.terminate()
        process.wait(30)


class Session:
    """One visitor. `open` asks for a page as a browser does, and returns what was drawn."""

    def __init__(self, port: int, **headers: str) -> None:
        self.origin = headers.pop("origin", f"http://127.0.0.1:{port}")
        self._socket = connect(
            f"ws://127.0.0.1:{port}/_stcore/stream",
            origin=Origin(self.origin),
            additional_headers=headers,
            subprotocols=[Subprotocol("streamlit")],
            max_size=None,
            open_timeout=60,
        )
        self.session_id = ""

    def open(self, page: str = "", query: str = "", timeout_s: float = 120) -> list[Any]:
        """The elements of the page, in the order in which they came. Raises TimeoutError."""
        message = BackMsg()
        message.rerun_script.query_string = query
        message.rerun_script.page_name = page
        self._socket.send(message.SerializeToString())
        deadline = time.monotonic() + timeout_s
        elements: list[Any] = []
        while True:
            said = ForwardMsg()
            data = self._socket.recv(timeout=max(0.01, deadline - time.monotonic()))
            assert isinstance(data, bytes)
            said.ParseFromString(data)
            kind = said.WhichOneof("type")
            if kind == "new_session":
                self.session_id = said.new_session.initialize.session_id or self.session_id
            if kind == "delta" and said.delta.HasField("new_element"):
                elements.append(said.delta.new_element)
            if kind == "script_finished":
                return elements

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def kinds(elements: Sequence[Any]) -> list[str]:
    """What each element is: `heading`, `alert`, `exception`, `plotly_chart` …"""
    return [str(element.WhichOneof("type")) for element in elements]


def texts(elements: Sequence[Any]) -> str:
    """All that the elements say, in one string."""
    return "\n".join(str(element) for element in elements)
