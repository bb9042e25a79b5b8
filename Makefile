# `make app` and `make test` are all a new machine needs; both set the environment up first.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help setup app test lint types unit env-tf435 fuzz screenshots

help:  ## what can be made
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

setup: $(VENV)/.ready  ## make .venv and install what is pinned

$(VENV)/.ready: requirements.txt requirements-dev.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v <= (3, 13) else f"VRAMscope needs Python 3.11 to 3.13, this is {v[0]}.{v[1]}: make PYTHON=python3.12 app")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	touch $@

app: setup  ## open the app on http://127.0.0.1:8501
	$(BIN)/python -m core serve

test: setup lint types unit  ## every check: lint, types, layers, tests

lint: setup  ## ruff, and the layers of core/
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

types: setup  ## mypy --strict
	$(BIN)/mypy

env-tf435: setup .envs/tf435/.ready  ## an environment with transformers 4.35.2, as in the forum's question

# --no-deps: everything else is the app's own. These three are the newest that belong together.
.envs/tf435/.ready: Makefile
	rm -rf .envs/tf435
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --only-binary=:all: --target .envs/tf435 \
		transformers==4.35.2 tokenizers==0.15.2 huggingface_hub==0.25.2
	touch $@

unit: setup env-tf435  ## the tests
	$(BIN)/python -m pytest

fuzz: setup  ## 100,000 generated texts for core.oom's parser; takes some minutes
	VRAMSCOPE_FUZZ=100000 $(BIN)/python -m pytest -p no:xdist -o addopts= -s tests/oom/test_hostile.py -k generated

screenshots: setup  ## the pictures of README and docs, from the app as it is now (needs Chromium)
	$(BIN)/python -m bench.screenshots
