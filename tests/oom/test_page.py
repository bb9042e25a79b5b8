"""The page Diagnose: the answer with its arithmetic, links into Explore, and hostile text shown as text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

ROOT = Path(__file__).resolve().parents[2]
MESSAGE = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 642.00 MiB."


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AppTest:
    monkeypatch.setenv("VRAMSCOPE_HOME", str(tmp_path / "home"))
    opened = AppTest.from_file(str(ROOT / "streamlit_app.py"), default_timeout=30).run()
    opened.switch_page("pages/4_Diagnose.py").run()
    assert not opened.exception
    return opened


def explained(app: AppTest, text: str, **hints: str) -> AppTest:
    app.text_area(key="pasted").set_value(text)
    for name, value in hints.items():
        app.text_input(key=f"hint-{name}").set_value(value)
    app.button[0].click().run()
    assert not app.exception
    return app


def test_the_answer_shows_its_arithmetic(app: AppTest) -> None:
    explained(app, MESSAGE, model="llama-7b", batch_size="150", prompt_tokens="35", engine="deepspeed_kernel_inject")
    assert any("DeepSpeed" in markdown.value for markdown in app.markdown)
    shown = [code.value for code in app.code]
    assert "150 × 35 × 32,000 × 4 B = 672,000,000 bytes" in shown[0]
    assert MESSAGE in shown
    assert any(answer.startswith("**cuda: 673,185,792 bytes") for answer in shown)


def test_a_text_without_an_error_says_what_is_looked_for(app: AppTest) -> None:
    assert "is looked for" in explained(app, "all is well").info[0].value


def test_hostile_text_is_text(app: AppTest) -> None:
    hostile = "<script>alert(1)</script> [x](javascript:alert(1)) :red[y] **z** `q` $e$"
    explained(app, f"{hostile}\n{MESSAGE}\nmodel = '{hostile}'", model=hostile, engine=hostile)
    for element in (*app.markdown, *app.caption, *app.subheader, *app.info):
        assert "<script" not in element.value
        assert "](javascript" not in element.value


def test_every_known_message_is_drawn(app: AppTest) -> None:
    rows = json.loads((ROOT / "tests/oom/data/oom_formats.json").read_text(encoding="utf-8"))
    explained(app, "\n\n".join(row["message"] for row in rows))
    assert any(expander.label == f"Errors found: {len(rows)}" for expander in app.expander)
