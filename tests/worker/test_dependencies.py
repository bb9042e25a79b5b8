"""A worker runs in the Python of the environment it measures: what it imports, and how it is written, is limited."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worker.running import ROOT, environment

OF_OUR_OWN = ("core.worker", "core.runfolder.layout", "core.runfolder.jsonio")
LIBRARIES = ("torch", "transformers", "deepspeed")
FILES = sorted((ROOT / "core" / "worker").glob("*.py"))


def imported(path: Path) -> set[str]:
    """Every module that the file names in an import, wherever in it."""
    tree = ast.parse(path.read_text(), feature_version=(3, 9))  # raises SyntaxError for newer grammar
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add(str(node.module))
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_worker_needs_the_standard_library_torch_and_transformers_only(path: Path) -> None:
    assert "__future__" in imported(path) or not path.read_text().strip()
    for name in imported(path):
        root = name.partition(".")[0]
        ours = any(name == allowed or name.startswith(f"{allowed}.") for allowed in OF_OUR_OWN)
        assert ours or root in LIBRARIES or root in sys.stdlib_module_names, f"{path.name} imports {name}"


def test_nothing_but_the_standard_library_is_imported_before_the_first_phase() -> None:
    script = (
        "import sys, core.worker.__main__\n"
        "print(*[n for n in sys.modules if 'site-packages' in (getattr(sys.modules[n], '__file__', None) or '')])"
    )
    # -S: no site-packages at all
    printed = subprocess.check_output([sys.executable, "-S", "-c", script], env=environment(), text=True)
    assert printed.strip() == ""
