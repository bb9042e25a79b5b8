"""Hub ids: without a network, from the cache, and against a hub that the test serves itself.

huggingface_hub reads its settings when it is imported, so each case is a process of its own.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from core.spec.hub import hub_answers
from tests.spec.folders import tiny_config

ROOT = Path(__file__).parents[2]
COMMIT = "0" * 39 + "1"
NOBODY = "http://127.0.0.1:9"

SCRIPT = """
import json, sys, time
from core.spec.errors import InvalidSpec
from core.spec.model_source import resolve
from core.spec.run_spec import parse_spec
start = time.monotonic()
try:
    source = resolve(parse_spec(json.loads(sys.argv[1])))
    said = {"kind": source.kind, "name": source.name, "model_type": source.config["model_type"]}
except InvalidSpec as error:
    said = {"error": str(error)}
print(json.dumps({**said, "seconds": time.monotonic() - start}))
"""


def resolved(cache: Path, endpoint: str = NOBODY, offline: bool = False, **fields: Any) -> dict[str, Any]:
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    environment |= {"HF_HOME": str(cache), "HF_ENDPOINT": endpoint, "HF_HUB_OFFLINE": str(int(offline))}
    spec = json.dumps({"model": "org/name", **fields})
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, spec],
        check=False,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def cached(cache: Path, *files: str) -> Path:
    """A cache that holds `org/name` at branch main, as huggingface_hub lays it out."""
    model = cache / "hub" / "models--org--name"
    snapshot = model / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text(COMMIT)
    (snapshot / "config.json").write_text(json.dumps(tiny_config()))
    for name in files:
        (snapshot / name).touch()
    return cache


@pytest.mark.parametrize("offline", [False, True], ids=["no network", "HF_HUB_OFFLINE"])
def test_without_a_network_it_fails_fast_and_says_what_to_do(tmp_path: Path, offline: bool) -> None:
    start = time.monotonic()
    answer = resolved(tmp_path, offline=offline)
    assert "org/name is not in the local cache and the hub does not answer" in answer["error"]
    assert "use a folder with config.json, or a preset with weights=random" in answer["error"]
    assert "\n" not in answer["error"]
    assert answer["seconds"] < 5
    assert time.monotonic() - start < 30


def test_a_cached_model_works_without_a_network(tmp_path: Path) -> None:
    cache = cached(tmp_path, "model.safetensors")
    for offline in (False, True):
        answer = resolved(cache, offline=offline)
        assert (answer["kind"], answer["name"], answer["model_type"]) == ("hub", "org/name", "llama")


def test_cached_pickled_weights_are_refused(tmp_path: Path) -> None:
    cache = cached(tmp_path, "pytorch_model.bin")
    assert "has no safetensors, and pickled weights can run code" in resolved(cache)["error"]
    assert resolved(cache, weights="random")["kind"] == "hub"


def test_the_proxy_is_asked_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://hub.invalid")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        address = f"127.0.0.1:{proxy.getsockname()[1]}"
        for given in (f"http://{address}", address):
            monkeypatch.setenv("http_proxy", given)
            assert hub_answers()
        monkeypatch.setenv("no_proxy", "hub.invalid")
        assert not hub_answers()


class Hub(BaseHTTPRequestHandler):
    """As much of the hub's interface as a config and a list of files need."""

    files: ClassVar[list[str]] = ["config.json"]
    config: ClassVar[dict[str, Any]] = tiny_config()
    asked: ClassVar[list[str]] = []

    def do_HEAD(self) -> None:  # named by http.server
        self.do_GET()

    def do_GET(self) -> None:  # named by http.server
        self.asked.append(self.path)
        if self.path in ("/org/name/resolve/main/config.json", "/org/name/resolve/v1/config.json"):
            self._send(json.dumps(self.config).encode())
        elif self.path.startswith("/api/models/org/name/tree/"):
            self._send(json.dumps([{"type": "file", "path": f, "size": 1, "oid": "0"} for f in self.files]).encode())
        elif self.path.startswith("/api/models/org/name"):
            siblings = [{"rfilename": name} for name in self.files]
            self._send(json.dumps({"id": "org/name", "sha": COMMIT, "siblings": siblings}).encode())
        else:
            self.send_response(404)
            code = "RevisionNotFound" if self.path.startswith("/org/name/") else "RepoNotFound"
            self.send_header("X-Error-Code", code)
            self.send_header("Content-Length", "0")
            self.end_headers()

    def _send(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/json")
        self.send_header("ETag", '"abc"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on the terminal."""


@pytest.fixture
def hub() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    Hub.files, Hub.config, Hub.asked = ["config.json"], tiny_config(), []
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_hub_that_answers(tmp_path: Path, hub: str) -> None:
    answer = resolved(tmp_path, hub, weights="random", revision="v1")
    assert (answer.get("kind"), answer.get("model_type")) == ("hub", "llama"), answer
    assert "/org/name/resolve/v1/config.json" in Hub.asked
    assert "has no safetensors" in resolved(tmp_path, hub)["error"]
    Hub.files = ["config.json", "model.safetensors"]
    assert resolved(tmp_path, hub)["kind"] == "hub"
    assert not any("safetensors" in path for path in Hub.asked)  # the worker fetches weights, not the check


def test_what_the_hub_does_not_have(tmp_path: Path, hub: str) -> None:
    missing = resolved(tmp_path, hub, model="org/none")["error"]
    assert missing.startswith("the hub gives no config.json for org/none: ") and "\n" not in missing
    revision = resolved(tmp_path, hub, revision="v9")["error"]
    assert revision.startswith("the hub gives no config.json for org/name at revision v9: ")


def test_a_config_from_the_hub_is_checked_like_any_other(tmp_path: Path, hub: str) -> None:
    Hub.config = tiny_config(auto_map={"AutoModelForCausalLM": "modeling.M"})
    assert "does not execute" in resolved(tmp_path, hub, weights="random")["error"]
