"""The server's settings, asserted against one that runs: who gets in, what is kept from whom, what an error says."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest
from streamlit.testing.v1 import AppTest
from websockets.exceptions import InvalidStatus

from core.cli.serve import host_names
from core.runfolder.jsonio import write_json
from core.runs.access import Authentication, admitted, authentication, is_loopback
from core.runs.home import DataHome, open_home
from core.runs.store import Store
from core.spec.errors import InvalidSpec
from tests.make_run import make_run
from tests.spec.folders import model_folder
from tests.ui.client import ROOT, Session, kinds, served, texts

pytestmark = pytest.mark.xdist_group("server")

PROVIDER = """
[auth]
redirect_uri = "http://127.0.0.1:8501/oauth2callback"
cookie_secret = "0123456789abcdef0123456789abcdef"
client_id = "app"
client_secret = "secret"
server_metadata_url = "http://127.0.0.1:9/.well-known/openid-configuration"
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> DataHome:
    home = open_home(tmp_path_factory.mktemp("server") / "home")
    make_run(home, "aaaaaa-1")
    Store(home).rename("aaaaaa-1", title="a secret title")
    return home


@pytest.fixture(scope="module")
def port(home: DataHome) -> Iterator[int]:
    with served(home) as port:
        yield port


def ask(
    port: int, path: str, method: str = "GET", body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of one request, sent as it is written."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, body, dict(headers or {}))
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def upgrade(port: int, **headers: str) -> int:
    """The status of a request for a websocket with these headers."""
    handshake = {
        "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", **headers,
    }  # fmt: skip
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", "/_stcore/stream", headers=handshake)
        return connection.getresponse().status
    finally:
        connection.close()


def test_it_listens_on_loopback_only(port: int) -> None:
    listening = [
        getattr(connection.laddr, "ip", None)
        for connection in psutil.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN and getattr(connection.laddr, "port", None) == port
    ]
    assert listening == ["127.0.0.1"]


def test_a_page_of_somebody_else_opens_no_session(port: int) -> None:
    with pytest.raises(InvalidStatus, match="403"):
        Session(port, origin="http://evil.example")
    assert upgrade(port, Host=f"127.0.0.1:{port}") == 101
    assert upgrade(port, Host=f"localhost:{port}") == 101
    assert upgrade(port, Host="evil.example", Origin="http://evil.example") == 403, (
        "a name that was bound to this address"
    )
    assert upgrade(port, Host=f"127.0.0.1:{port}", Origin="http://evil.example") == 403


def test_nothing_is_offered_to_other_origins(port: int) -> None:
    for path in ("/", "/_stcore/health", "/_stcore/host-config", "/_stcore/metrics", "/media/x"):
        _, headers, _ = ask(port, path, headers={"Origin": "http://evil.example"})
        assert headers.get("access-control-allow-origin") in (None, f"http://127.0.0.1:{port}", "http://localhost:8501")
    assert b'"allowedOrigins":[]' in ask(port, "/_stcore/host-config")[2], "no page may frame it and speak to it"


def test_an_upload_needs_a_token_and_keeps_to_the_limit(port: int) -> None:
    with Session(port) as session:
        session.open("Runs")
        path = f"/_stcore/upload_file/{session.session_id}/1"
        body = b'--b\r\nContent-Disposition: form-data; name="f"; filename="f.zip"\r\n\r\nx\r\n--b--\r\n'
        form = {"Content-Type": "multipart/form-data; boundary=b"}
        assert ask(port, path, "PUT", body, form)[0] == 403, "no token"
        _, headers, _ = ask(port, "/_stcore/health")
        cookie = headers["set-cookie"].partition(";")[0]
        token = cookie.partition("=")[2].strip('"')
        proper = {**form, "Cookie": cookie, "X-Xsrftoken": token}
        assert ask(port, path, "PUT", body, {**proper, "X-Xsrftoken": "0" * len(token)})[0] == 403, "another's token"
        assert ask(port, path, "PUT", body, proper)[0] == 204
        assert ask(port, path, "PUT", None, {**proper, "Content-Length": str(64 * 2**20 + 1)})[0] == 413
        assert ask(port, path.replace(session.session_id, "nobody"), "PUT", body, proper)[0] == 400


def test_an_error_of_ours_tells_no_visitor_where_files_lie(tmp_path: Path) -> None:
    home = open_home(tmp_path / "home")
    folder = make_run(home, "bbbbbb-1")
    folder.phases.write_text('{"name": "load", "t_start": "no time"}\n')  # none of ours; it stands for any mistake
    with served(home) as port, Session(port) as session:
        elements = session.open("Compare", "runs=bbbbbb-1")
        assert "exception" in kinds(elements), "the page meets the damage"
        said = texts([element for element in elements if element.WhichOneof("type") == "exception"])
        for secret in ("core/ui", str(ROOT), str(home.root), "no time", "Traceback"):
            assert secret not in said
        assert "exception" not in kinds(session.open("Runs")), "the other pages go on"


@pytest.mark.parametrize(
    "path",
    ["/../../etc/passwd", "/..%2f..%2fetc/passwd", "/static/../../config.toml", "/app/static/x", "//evil.example/x",
     "/.streamlit/config.toml", "/media/../../../etc/passwd", "/component/x/../../../etc/passwd"],
)  # fmt: skip
def test_no_file_of_the_machine_is_served(port: int, path: str) -> None:
    status, _, body = ask(port, path)
    assert b"root:" not in body
    assert b"enableXsrfProtection" not in body
    # what is no route is the app's own frame
    assert status in (400, 403, 404) or b"<title>" in body


def test_what_stays_open_without_a_login_holds_nothing_of_a_run(port: int) -> None:
    with Session(port) as session:
        assert "a secret title" in texts(session.open("Runs"))
        for path in (
            "/_stcore/health",
            "/_stcore/metrics",
            "/_stcore/host-config",
            "/",
            "/_stcore/script-health-check",
        ):
            assert b"secret title" not in ask(port, path)[2]
    assert ask(port, "/media/0123456789abcdef.csv")[0] == 404, "a file is found by its hash only"


def test_forged_links_and_huge_lists_are_text(port: int) -> None:
    many = ",".join(f"aaaaaa-{n}" for n in range(1, 5000))
    forged = (
        "runs=" + many, "runs=" + "x" * 100_000, "runs=../../etc/passwd", "runs=%00", "runs=aaaaaa-1&at=1e999",
        "axis=<script>&runs=aaaaaa-1", "runs=aaaaaa-1&series=" + "y," * 9999, "at=nan&runs=aaaaaa-1",
    )  # fmt: skip
    with Session(port) as session:
        for query in forged:
            elements = session.open("Compare", query)
            assert "exception" not in kinds(elements), query[:60]
            assert len(texts(elements)) < 5_000_000
        for query in ("batch_size=" + "9," * 9999, "model=" + "m" * 99999, "new_tokens=-1", "started=" + many):
            assert "exception" not in kinds(session.open("Explore", query)), query[:60]


def refused(*arguments: str, **variables: str) -> str:
    """What `serve` says when it does not start."""
    done = subprocess.run(
        [sys.executable, "-m", "core", "serve", *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, **variables},
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_other_addresses_are_refused_without_authentication(address: str, tmp_path: Path) -> None:
    said = refused("--address", address, VRAMSCOPE_HOME=str(tmp_path), HOME=str(tmp_path))
    assert "there is no authentication" in said
    assert "--without-authentication" in said


def test_a_server_that_was_opened_past_serve_shows_nothing(home: DataHome) -> None:
    command = [sys.executable, "-m", "streamlit", "run", "streamlit_app.py", "--server.address", "0.0.0.0",
               "--server.port", "PORT"]  # fmt: skip
    with served(home, command=command) as port, Session(port) as session:
        for page in ("", "Explore", "Compare", "Diagnose", "Runs"):
            elements = session.open(page, "runs=aaaaaa-1")
            assert kinds(elements) == ["alert"]
            assert "no authentication, so it shows nothing" in texts(elements)


def test_an_open_server_says_so_and_offers_no_folder_of_the_machine(home: DataHome, tmp_path: Path) -> None:
    folder = model_folder(tmp_path)
    with served(home, "--address", "0.0.0.0", "--without-authentication") as port, Session(port) as session:
        said = texts(session.open("Explore", f"model={folder}&device=cpu")).replace("\\", "")
        assert "is none of those that this server offers" in said
        assert upgrade(port, Host="evil.example") == 403, "names are still checked"
    with served(home) as port, Session(port) as session:
        said = texts(session.open("Explore", f"model={folder}&device=cpu"))
        assert "is none of those" not in said.replace("\\", ""), "on loopback the machine's user is the visitor"


def test_what_authentication_has_to_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "secrets.toml"
    assert authentication((place,)) is None
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    place.write_text("[database]\nx = 1\n")
    assert authentication((place,)) is None
    place.write_text(PROVIDER)
    assert authentication((place,)) == Authentication(())
    place.write_text(PROVIDER.replace('client_id = "app"', ""))
    with pytest.raises(InvalidSpec, match="lacks client_id"):
        authentication((place,))
    place.write_text('[auth]\nredirect_uri = "x"\ncookie_secret = "y"\n[auth.okta]\nclient_id = "z"\n')
    with pytest.raises(InvalidSpec, match=r"lacks okta\.client_secret, okta\.server_metadata_url"):
        authentication((place,))
    place.write_text("not toml")
    with pytest.raises(InvalidSpec, match="has to be TOML"):
        authentication((place,))
    place.write_text(PROVIDER)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InvalidSpec, match="pip install Authlib"):
        authentication((place,))


class Visitor(dict[str, Any]):
    """What st.user is for someone who has, or has not, logged in."""

    def __init__(self, logged_in: bool, **about: Any) -> None:
        super().__init__(about)
        self.is_logged_in = logged_in


@pytest.mark.parametrize(
    "page", ["", "pages/1_Explore.py", "pages/2_Compare.py", "pages/4_Diagnose.py", "pages/5_Runs.py"]
)
def test_every_page_stands_behind_the_login(page: str, home: DataHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VRAMSCOPE_HOME", str(home.root))
    monkeypatch.setenv("VRAMSCOPE_MODEL_ROOTS", "")
    monkeypatch.setattr("core.ui.access.authentication", lambda: Authentication(("okta",)))

    def opened(visitor: Visitor, *allowed: str) -> AppTest:
        monkeypatch.setattr("core.ui.access.st.user", visitor)
        write_json(home.settings, {"allowed_users": list(allowed)})
        app = AppTest.from_file(str(ROOT / "streamlit_app.py"), default_timeout=60).run()
        return app.switch_page(page).run() if page else app

    closed = opened(Visitor(False))
    assert [button.label for button in closed.button] == ["Log in with okta"]
    assert not closed.dataframe and not closed.caption and not closed.text_input
    ours = {"email": "ana@example.org"}
    assert opened(Visitor(True, **ours)).caption, "everyone whom the provider lets in"
    assert opened(Visitor(True, **ours), "*@example.org").caption
    for stranger in (ours, {"email": "ben@example.org", "email_verified": False}, {}):
        app = opened(Visitor(True, **stranger), "ben@example.org")
        assert "not among those" in app.error[0].value
        assert not app.caption and not app.dataframe
    home.settings.unlink()


def test_who_is_admitted() -> None:
    assert admitted(None, ())
    assert not admitted(None, ("*",))
    assert admitted("Ana@Example.org", ("ben@x.org", "*@example.org"))
    assert not admitted("ana@example.org.evil.net", ("*@example.org",))


def test_which_addresses_are_loopback() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost", "LOCALHOST")))
    assert not any(map(is_loopback, (None, "", "0.0.0.0", "::", "10.0.0.1", "example.org", "127.0.0.1.evil.net")))


def test_the_names_by_which_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VRAMSCOPE_PUBLIC_URL", raising=False)
    assert host_names("127.0.0.1", []) == ["localhost", "127.0.0.1", "::1"]
    assert "192.0.2.1" in host_names("192.0.2.1", [])
    assert "0.0.0.0" not in host_names("0.0.0.0", [])
    monkeypatch.setenv("VRAMSCOPE_PUBLIC_URL", "https://vram.example.org/x")
    assert host_names("127.0.0.1", ["other"])[-2:] == ["other", "vram.example.org"]
