"""`python -m core.simulate.forecasting FOLDER`: answers the questions in FOLDER until there have been none for a while.

A question is `KEY.todo` (a spec, a model's config, a card), its answer `KEY.json`. One process answers at a time; it
takes the processor only when nobody else wants it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from pathlib import Path

from filelock import FileLock, Timeout

from core.runfolder.jsonio import read_json, write_json
from core.simulate.verdict import verdict_of
from core.spec.cards import find_card

PATIENCE_S = 20.0
POLL_S = 0.1


def main(root: str) -> int:
    folder = Path(root)
    with contextlib.suppress(OSError, AttributeError):
        os.nice(10)
    try:
        with FileLock(folder / "forecasting.lock", timeout=0):
            asked_at = time.monotonic()
            while time.monotonic() - asked_at < PATIENCE_S:
                questions = sorted(folder.glob("*.todo"), key=lambda path: path.stat().st_mtime)
                for question in questions:
                    answer(question)
                    asked_at = time.monotonic()
                time.sleep(POLL_S)
    except Timeout:
        pass  # another one is at work, and finds the question
    return 0


def answer(question: Path) -> None:
    """Answer one question; one that cannot be read is dropped."""
    asked = read_json(question)
    if asked is not None:
        with tempfile.TemporaryDirectory(prefix="vramscope-") as scratch:
            write_json(Path(scratch) / "config.json", asked["config"])
            cards = os.environ.get("VRAMSCOPE_CARDS")
            card = find_card(asked["card"], Path(cards) if cards else None)
            write_json(question.with_suffix(".json"), verdict_of(asked["spec"], Path(scratch), card))
    question.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
