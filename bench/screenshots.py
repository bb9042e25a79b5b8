"""`python -m bench.screenshots [NAME…]`: the pictures of README and docs, taken from the app as it is now.

A server of its own with an empty data folder shows the recorded experiments in Debian's Chromium.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking")
WIDTH = 1280
PATIENCE_MS = 60_000

SHOTS = {
    "compare": ("Compare?runs=ddppuzzle-1,ddppuzzle-2&axis=step", 1000),
    "ddp-on-one-gpu": ("Compare?runs=ddppuzzle-1,ddppuzzle-2&axis=step", 2500),
}
"""The file's name, the page it shows and how many pixels of it, from the top."""


@contextmanager
def app() -> Iterator[str]:
    """The address of a running app."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as home:
        command = [sys.executable, "-m", "core", "serve", "--port", str(port)]
        server = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "VRAMSCOPE_HOME": home})
        try:
            address = f"http://127.0.0.1:{port}"
            _wait(f"{address}/_stcore/health")
            yield address
        finally:
            server.terminate()
            server.wait()


def _wait(address: str) -> None:
    for _ in range(300):
        try:
            urllib.request.urlopen(address, timeout=1)
            return
        except OSError:
            time.sleep(0.2)
    raise SystemExit("the app did not start")


def shoot(page: Page, address: str, name: str) -> None:
    """Write one picture, when the page has drawn its figures and nothing runs any more."""
    target, height = SHOTS[name]
    page.set_viewport_size({"width": WIDTH, "height": height})
    page.goto(f"{address}/{target}")
    page.wait_for_selector(".js-plotly-plot .main-svg", timeout=PATIENCE_MS)
    page.wait_for_selector("text=What explains it", timeout=PATIENCE_MS)
    page.wait_for_function(
        "() => document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'",
        timeout=PATIENCE_MS,
    )
    page.wait_for_timeout(1500)  # plotly's own drawing, and fonts
    page.screenshot(path=IMAGES / f"{name}.png")


def main(names: list[str]) -> None:
    with app() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        page = browser.new_page()
        for name in names or list(SHOTS):
            shoot(page, address, name)
            print(f"docs/images/{name}.png")
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
