"""Every page, opened from the entry script, with nothing recorded and with runs recorded."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.runs.gallery import recordings
from core.runs.home import DataHome, open_home
from core.runs.store import Store
from core.trace.read import read_trace
from core.ui.explain import explore_query
from core.ui.text import plain
from tests.make_run import make_run

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("pages/1_Explore.py", "pages/2_Compare.py", "pages/4_Diagnose.py", "pages/5_Runs.py")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataHome:
    monkeypatch.setenv("VRAMSCOPE_HOME", str(tmp_path / "home"))
    return open_home()


def opened(page: str | None = None, **query: str) -> AppTest:
    app = AppTest.from_file(str(ROOT / "streamlit_app.py"), default_timeout=30)
    for name, value in query.items():
        app.query_params[name] = value
    app.run()
    if page:
        app.switch_page(page).run()
    assert not app.exception
    return app


def test_home_says_what_to_do_when_nothing_was_recorded(home: DataHome) -> None:
    app = opened()
    assert app.title[0].value == "VRAMscope"
    assert any("Explore starts a first run" in info.value for info in app.info)
    assert (
        any("No GPU: " in info.value for info in app.info) or app.dataframe[0].value["device"].str.contains(r"\[").any()
    )


def test_home_lists_the_latest_runs(home: DataHome) -> None:
    make_run(home, "aaaaaa-1")
    app = opened()
    assert app.dataframe[1].value["experiment"].tolist() == ["made aaaaaa"]
    assert app.dataframe[1].value["open"].tolist() == ["/Compare?runs=aaaaaa-1"]
    table = app.dataframe[2].value
    assert table["run"].tolist() == ["aaaaaa-1"]
    assert table["peak allocated"].tolist() == ["1,424.0 MiB"]


@pytest.mark.parametrize("page", PAGES)
def test_every_page_opens_empty(home: DataHome, page: str) -> None:
    app = opened(page)
    assert app.title[0].value == page[8:-3]
    assert app.info or app.button


def test_a_data_folder_that_cannot_be_written_is_said_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("VRAMSCOPE_HOME", str(tmp_path / "file" / "home"))
    assert "set VRAMSCOPE_HOME to one that can" in opened().error[0].value


def test_explore_says_how_many_runs_before_it_starts_any(home: DataHome) -> None:
    app = opened("pages/1_Explore.py", model="gpt2", batch_size="1,4", wrap="none,ddp", device="cpu")
    assert any(markdown.value == "**4 runs** on cpu" for markdown in app.markdown)
    assert app.button[0].label == "Run 4"
    assert not list(home.runs.iterdir()), "typing starts nothing"


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"model": "no-such"}, "there is no preset"),
        ({"model": "gpt2", "batch_size": "0"}, "batch"),
        ({"model": "gpt2", "device": "cuda:77"}, "cuda"),
        (
            {
                "model": "gpt2",
                "batch_size": ",".join(map(str, range(1, 31))),
                "prompt_tokens": ",".join(map(str, range(1, 31))),
            },
            "more than 500",
        ),
    ],
)
def test_explore_refuses_with_the_reason(home: DataHome, query: dict[str, str], message: str) -> None:
    app = opened("pages/1_Explore.py", **query)
    assert message in app.error[0].value.replace("\\", "")
    assert not any(button.label.startswith("Run") for button in app.button)


def test_explore_submits_and_shows_the_run(home: DataHome, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("submit", "start"):  # nobody works on this queue
        monkeypatch.setattr(f"core.runs.{module}.ensure_supervisor", lambda home: None)
    app = opened("pages/1_Explore.py", model="tiny-llama", device="cpu")
    next(button for button in app.button if button.label == "Run 1").click().run()
    assert not app.exception
    (row,) = Store(home).list_runs()
    assert row.state == "queued"
    assert any(row.run_id in markdown.value for markdown in app.markdown)
    assert any(button.label == "Cancel" for button in app.button)


def test_compare_draws_the_runs_of_the_address(home: DataHome) -> None:
    make_run(home, "aaaaaa-1")
    make_run(home, "aaaaaa-2", wrap="ddp", state="oom")
    app = opened("pages/2_Compare.py", runs="aaaaaa-1,aaaaaa-2,zzzzzz-9", axis="step")
    assert app.subheader[0].value == plain("wrap: none → ddp")
    assert any("zzzzzz" in warning.value for warning in app.warning), "a run that has gone is said"
    assert any("642" in markdown.value for markdown in app.markdown), "the error of the run that ran out of memory"
    peaks, specs = app.dataframe[-2].value, app.dataframe[-1].value
    assert peaks["run"].tolist() == ["aaaaaa-1", "aaaaaa-2"]
    assert specs["field"].tolist() == ["wrap"]


def test_the_series_of_a_link_are_shown_and_unknown_ones_ignored(home: DataHome) -> None:
    make_run(home, "aaaaaa-1")
    app = opened("pages/2_Compare.py", runs="aaaaaa-1", series="allocated,host_rss,nonsense")
    assert app.button_group[1].value == ["allocated", "host_rss"]


@pytest.mark.parametrize("runs", ["../../etc", "x" * 5000, ",".join(f"a-{n}" for n in range(5000)), "<script>", "%00"])
def test_forged_links_are_only_text(home: DataHome, runs: str) -> None:
    app = opened("pages/2_Compare.py", runs=runs)
    assert app.warning
    assert app.info


def test_runs_filters_deletes_and_undoes(home: DataHome) -> None:
    make_run(home, "aaaaaa-1")
    make_run(home, "bbbbbb-1", model="opt-1.3b")
    app = opened("pages/5_Runs.py")
    assert sorted(app.dataframe[0].value["run"]) == ["aaaaaa-1", "bbbbbb-1"]
    app.text_input[0].set_value("opt").run()
    assert app.dataframe[0].value["run"].tolist() == ["bbbbbb-1"]
    Store(home).delete(["bbbbbb-1"])
    app.session_state["deleted-runs"] = ["bbbbbb-1"]
    app.run()
    next(button for button in app.button if button.label == "Undo").click().run()
    assert app.dataframe[0].value["run"].tolist() == ["bbbbbb-1"]


def test_text_of_a_user_is_not_read_as_markdown() -> None:
    assert plain("**x** [a](javascript:1) $y$ :red[z]") == (r"\*\*x\*\* \[a\]\(javascript\:1\) \$y\$ \:red\[z\]")


def test_home_shows_the_recorded_experiments(home: DataHome) -> None:
    app = opened("streamlit_app.py")
    titles = [markdown.value for markdown in app.markdown]
    for recording in recordings():
        assert f"**{plain(recording.title)}**" in titles
    assert len(app.get("plotly_chart")) == len(recordings())


def test_a_recorded_experiment_opens_in_compare_with_no_run_made(home: DataHome) -> None:
    first = recordings()[0]
    app = opened("pages/2_Compare.py", runs=",".join(first.run_ids))
    assert not app.warning
    assert app.dataframe[-2].value["run"].tolist() == list(first.run_ids)


def test_compare_explains_the_puzzle(home: DataHome) -> None:
    app = opened("pages/2_Compare.py", runs="ddppuzzle-1,ddppuzzle-2", axis="step")
    said = " ".join(markdown.value for markdown in app.markdown).replace("\\", "")
    assert "asked for 642.0 MiB of logits more" in said
    assert "ddppuzzle-1 − ddppuzzle-2 = 202.0 MiB" in said
    assert "DeepSpeed took 32.8 GiB as one workspace" in said
    assert [subheader.value for subheader in app.subheader][1:4] == [
        "Where the memory is",
        "Where they differ",
        "What explains it",
    ]


def test_a_finding_opens_explore_filled_in(home: DataHome) -> None:
    trace = read_trace(home.run("ddppuzzle-1"))
    query = explore_query(trace, {"max_out_tokens": 72})
    assert query["max_out_tokens"] == "72"
    assert query["kernel_inject"] == "true"
    assert "device" not in query, "a card of another machine is not asked for"
    here = {**query, "device": "cpu", "kernel_inject": "false", "capacity_mib": "", "environment": "default"}
    app = opened("pages/1_Explore.py", **{name: value for name, value in here.items() if value})
    assert not app.exception
    assert any(button.label == "Run 1" for button in app.button)


def test_a_failure_that_is_an_out_of_memory_in_disguise_says_so(home: DataHome) -> None:
    app = opened("pages/2_Compare.py", runs="ddppuzzle-3")
    (said,) = (one.value for one in app.markdown if "CUBLAS" in one.value)
    assert "failed, out of memory in disguise: cuBLAS could not get memory" in said.replace("\\", "")


def test_the_instant_of_a_link_is_shown(home: DataHome) -> None:
    app = opened("pages/2_Compare.py", runs="fragmentation-1,fragmentation-2", at="20")
    assert app.number_input[0].value == 20
    assert any("at step 20" in caption.value for caption in app.caption)


def test_explore_says_what_a_simulation_gives_before_anything_is_started(
    home: DataHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = [{"verdict": "oom", "peak_device_used": 48 * 2**30, "message": "x"}, None]
    monkeypatch.setattr("core.ui.explore.forecasts", lambda home, runs, names: said)
    app = opened("pages/1_Explore.py", model="gpt2", device="sim:rtx-a6000", batch_size="1,2")
    table = app.dataframe[0].value
    assert table["simulated verdict"].tolist() == ["out of memory", "…"]
    assert table["simulated peak"].tolist() == ["48.00 GiB", "–"]
    assert any(button.label == "Run 2" for button in app.button)
