"""`python -m tests.faults.submitter DATA_FOLDER COUNT`: submits runs in experiments of one to four, to two cards."""

from __future__ import annotations

import os
import random
import sys

from core.runs.home import open_home
from core.runs.submit import PreparedRun, submit
from core.spec.model_source import resolve
from core.spec.run_spec import parse_spec
from tests.faults.storm import CARDS


def main(root: str, count: int) -> None:
    home, choose = open_home(root), random.Random(os.getpid())
    left = count
    while left:
        runs = []
        for _ in range(min(left, choose.randint(1, 4))):
            spec = parse_spec({"model": "tiny-llama", "device": choose.choice(CARDS), "environment": "fake"})
            runs.append(PreparedRun(spec, resolve(spec), (), "finish"))
        submit(home, runs)
        left -= len(runs)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
