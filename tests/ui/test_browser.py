"""A Compare link, opened in a real browser as the first request to a fresh server."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, sync_playwright

from core.runs.home import open_home
from core.runs.store import Store
from tests.make_run import make_run

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]


pytestmark = [
    pytest.mark.browser,
    pytest.mark.xdist_group("browser"),
    pytest.mark.skipif(
        not Path(CHROMIUM).exists() and not os.environ.get("CI"), reason="Debian's chromium is not installed"
    ),
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A fresh server on a data folder with two runs; its address."""
    home = open_home(tmp_path / "home")
    make_run(home, "aaaaaa-1")
    make_run(home, "aaaaaa-2", wrap="ddp")
    Store(home).rename("aaaaaa-2", title="<img src=x onerror=\"document.title='hacked'\">")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "core", "serve", "--port", str(port)]
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "VRAMSCOPE_HOME": str(home.root)})
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=1).close()
                break
            except OSError:
                assert time.monotonic() < deadline, "the server does not answer"
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


@pytest.fixture
def browser_page() -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser.new_page(viewport={"width": 1440, "height": 900})
        browser.close()


def test_a_compare_link_is_the_first_request_to_a_fresh_server(server: str, browser_page: Page) -> None:
    errors: list[str] = []
    browser_page.on(
        "console",
        lambda message: errors.append(f"{message.text} {message.location}") if message.type == "error" else None,
    )
    browser_page.on("pageerror", lambda error: errors.append(str(error)))
    link = f"{server}/Compare?runs=aaaaaa-1,aaaaaa-2&axis=step"
    browser_page.goto(link)
    browser_page.wait_for_selector(".js-plotly-plot .gl-canvas, .js-plotly-plot canvas", timeout=60_000)
    browser_page.get_by_role("heading", name="wrap: none → ddp").wait_for(timeout=20_000)
    assert "axis=step" in browser_page.url
    assert "runs=aaaaaa-1" in browser_page.url
    assert browser_page.locator(".js-plotly-plot .xtitle, .js-plotly-plot text", has_text="step").count()
    drawn = browser_page.evaluate(
        "() => document.querySelector('.js-plotly-plot').data.filter(t => t.type === 'scattergl').length"
    )
    assert drawn == 6, "three metrics of two runs"
    assert browser_page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
    assert browser_page.title() == "Compare · VRAMscope", "the markup in a title was not executed"
    # Streamlit asks /Compare/_stcore/… before /_stcore/…, which is not ours
    assert [error for error in errors if "/Compare/_stcore/" not in error] == []
