"""Executes several run folders one after the other in one process, so that torch is imported once.

Before that it saves a model into `saved`, beside the folders, for the run that loads one.
"""

from __future__ import annotations

import sys
from pathlib import Path

from core.worker.__main__ import main


def save_model(config_folder: Path, target: Path) -> None:
    from transformers import AutoConfig, AutoModelForCausalLM

    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(config_folder))
    model.generation_config.min_new_tokens = 40  # a run does the same work, whatever comes with the weights
    model.save_pretrained(target)


if __name__ == "__main__":
    folders = [Path(name) for name in sys.argv[1:]]
    save_model(folders[0] / "model", folders[0].parent / "saved")
    sys.exit(max(main(str(folder)) for folder in folders))
