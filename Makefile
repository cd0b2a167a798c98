# Everything a fresh machine needs is Python 3.11 with venv and pip, and make.
PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= 2

.PHONY: demo test check format core long bench docs lock clean

demo: .venv/ready
	$(BIN)/cautious demo --out demo

test: .venv/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -n $(WORKERS) -m "not slow"

check: format test

format: .venv/ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# rebuilds what is older than the headers, and the stubs
core: .venv/ready
	$(BIN)/python build_core.py

long: .venv/ready
	$(BIN)/pytest -n $(WORKERS) -m slow

bench: .venv/ready
	$(BIN)/cautious bench

docs: .venv/ready
	$(BIN)/sphinx-build -W --keep-going --fresh-env -j $(WORKERS) -b html docs docs/_build/html

lock: .venv/ready
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile --quiet --no-header --no-annotate --no-emit-index-url --universal --python-version 3.11 \
	  --all-extras --group dev pyproject.toml --output-file requirements.lock

.venv/ready: requirements.lock pyproject.toml
	@echo "Setting up .venv from requirements.lock: some minutes, once"
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch .venv/ready

clean:
	rm -rf .venv demo dist docs/_build docs/auto_gallery docs/auto_root
