"""core.spec is imported by every page and command: it must not bring the heavy libraries with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
import core.spec.architecture, core.spec.checks, core.spec.experiment, core.spec.fields, core.spec.hub
from core.spec.model_source import resolve
from core.spec.run_spec import parse_spec
resolve(parse_spec({"model": "gpt2"}))
print(*[name for name in ("torch", "transformers", "huggingface_hub", "streamlit", "numpy") if name in sys.modules])
"""


def test_no_heavy_library_is_imported() -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
