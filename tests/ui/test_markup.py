"""Names with markup in them, in a real browser: nothing of them is executed, on any page, in Plotly's hovers either."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Page

from core.runfolder.jsonio import read_json, write_json
from core.runs.home import DataHome, open_home
from core.runs.status import Failure, read_status, write_status
from core.runs.store import Store
from tests.make_run import make_run
from tests.ui.client import served
from tests.ui.test_browser import browser_page, pytestmark

__all__ = ["browser_page", "pytestmark"]

HOSTILE = (
    '<img src=x onerror="window.hacked=1">',
    "<script>window.hacked=2</script>",
    "<svg onload=window.hacked=3>",
    "[click](javascript:window.hacked=4)",
    "<a href='javascript:window.hacked=5'>x</a>",
    "$\\href{javascript:window.hacked=6}{x}$ :red[x] %{customdata[0]} {{7*7}}",
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> DataHome:
    """Runs whose every name is hostile: titles, notes, labels, models, devices, phases, modules, errors."""
    home = open_home(tmp_path_factory.mktemp("markup") / "home")
    for number, text in enumerate(HOSTILE, 1):
        folder = make_run(home, f"aaaaaa-{number}", state="oom" if number % 2 else "finished")
        document = read_json(folder.spec) or {}
        spec = {**document["spec"], "model": text, "batch_size": number}
        write_json(folder.spec, {**document, "label": text, "spec": spec})
        rows = folder.phases.read_text().splitlines()
        named = [json.dumps({**json.loads(row), "name": text}) if '"load"' in row else row for row in rows]
        folder.phases.write_text("\n".join(named) + "\n")
        status = read_status(folder)
        assert status
        failure = Failure("oom", f"{text} CUDA out of memory. Tried to allocate 642.00 MiB. {text}", 1, text)
        device = {**status.device, "name": text}
        write_status(
            folder, replace(status, device=device, error=failure, trace_incomplete=text, contended=f"other {text}")
        )
        Store(home).rename(folder.run_id, title=text, note=text)
    write_json(home.experiments / "aaaaaa.json", {"title": HOSTILE[0], "note": HOSTILE[1], "created_at": 1000.0})
    Store(home).reindex()
    return home


@pytest.fixture(scope="module")
def port(home: DataHome) -> Iterator[int]:
    with served(home) as port:
        yield port


def is_clean(page: Page) -> None:
    assert page.evaluate("() => window.hacked") is None
    links = page.evaluate("() => [...document.querySelectorAll('a')].map(a => a.href)")
    assert not [link for link in links if link.lower().startswith("javascript:")]
    assert page.evaluate("() => document.querySelectorAll('img[src=x], svg[onload]').length") == 0


@pytest.mark.parametrize(
    ("page", "until"),
    [
        ("", "Latest on this machine"),
        ("Compare?runs=aaaaaa-1,aaaaaa-2,aaaaaa-3,aaaaaa-4,aaaaaa-5,aaaaaa-6", "Peaks"),
        ("Compare?runs=aaaaaa-1", "Peaks"),
        ("Runs", "6 runs"),
        ("Explore?model=" + HOSTILE[0] + "," + HOSTILE[3] + "&device=cpu", "there is no preset"),
        ("Explore?started=aaaaaa-1,aaaaaa-2", "Started here"),
        ("Diagnose", "Nothing you paste is stored"),
    ],
)
def test_nothing_is_executed_on_any_page(port: int, browser_page: Page, page: str, until: str) -> None:
    browser_page.goto(f"http://127.0.0.1:{port}/{page}")
    browser_page.get_by_text(until).first.wait_for(timeout=60_000)
    is_clean(browser_page)


def test_nothing_is_executed_in_a_hover(port: int, browser_page: Page) -> None:
    browser_page.goto(f"http://127.0.0.1:{port}/Compare?runs=aaaaaa-1,aaaaaa-2,aaaaaa-3,aaaaaa-4")
    browser_page.wait_for_selector(".js-plotly-plot .hoverlayer", state="attached", timeout=60_000)
    browser_page.get_by_role("heading", name="Peaks").wait_for(timeout=60_000)
    plots = browser_page.locator(".js-plotly-plot")
    hovered = 0
    for number in range(plots.count()):
        plot = plots.nth(number)
        plot.scroll_into_view_if_needed()
        box = plot.bounding_box()
        assert box
        for across in range(1, 20):
            for down in (0.3, 0.5, 0.7, 0.9, 0.95):
                browser_page.mouse.move(box["x"] + box["width"] * across / 20, box["y"] + box["height"] * down)
                hovered += plot.locator(".hoverlayer .hovertext").count()
        is_clean(browser_page)
    assert hovered > 0, "the mouse met no point of any plot"


def test_nothing_is_executed_in_the_report(home: DataHome, browser_page: Page, tmp_path: Path) -> None:
    from core.export.formats import exported

    report = tmp_path / "report.html"
    report.write_bytes(exported("html", [home.run(f"aaaaaa-{number}") for number in range(1, 7)]))
    browser_page.goto(report.as_uri())
    browser_page.wait_for_selector(".js-plotly-plot", timeout=60_000)
    is_clean(browser_page)
