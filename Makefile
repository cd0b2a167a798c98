# Everything a fresh machine needs is Python 3.11 with venv and pip, and make.
PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= 2

# the level of x86-64 that `make sanitize` builds
LEVEL ?= 3
CALLS ?= 20000
SECONDS ?= 3600
PAGE ?=

.PHONY: demo test check format core sanitize fuzz-kernels fuzz soak long bench docs contact-sheet dist lock clean

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

# tests of the core with checked memory accesses and arithmetic, then a search for races; g++ only
SANITIZED = env CAUTIOUS_CPU_LEVEL=$(LEVEL) PYTHONMALLOC=malloc LD_PRELOAD="$$(g++ -print-file-name=lib$(1).so) \
  $$(g++ -print-file-name=libstdc++.so)" CAUTIOUS_CORE=$(CURDIR)/build/$(1) $(2) $(BIN)/python -m pytest $(3)
sanitize: .venv/ready
	@command -v g++ > /dev/null || { echo "make sanitize needs g++, found none" >&2; exit 1; }
	CXX=g++ $(BIN)/python build_core.py --sanitize address,undefined --level $(LEVEL) --into build/asan
	$(call SANITIZED,asan,ASAN_OPTIONS=detect_leaks=0,tests/core)
	CXX=g++ $(BIN)/python build_core.py --sanitize thread --level $(LEVEL) --into build/tsan
	$(call SANITIZED,tsan,TSAN_OPTIONS=halt_on_error=1,tests/core/test_threads.py)

fuzz-kernels: .venv/ready
	$(BIN)/python tests/core/kernel_fuzzer.py --calls $(CALLS) --seed $$(date +%s)

fuzz: .venv/ready
	$(BIN)/python tests/input_fuzzer.py --calls $(CALLS) --seed $$(date +%s)

soak: .venv/ready
	$(BIN)/python tests/soak.py --seconds $(SECONDS) --seed $$(date +%s) --workers $(WORKERS) $(if $(PAGE),--page $(PAGE))

long: .venv/ready
	$(BIN)/pytest -n $(WORKERS) -m slow

bench: .venv/ready
	$(BIN)/cautious bench

docs: .venv/ready
	$(BIN)/sphinx-build -W --keep-going --fresh-env -j $(WORKERS) -b html docs docs/_build/html

# the main pages, reports and the studio on one picture, docs/images/contact-sheet.png; needs a Chromium
contact-sheet: docs
	$(BIN)/python docs/images/contact_sheet.py

# a source archive, a wheel built from it, and a smoke test of that wheel in an environment with nothing else
dist: .venv/ready
	rm -rf dist build/bare
	$(BIN)/hatchling build -t sdist
	$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist dist/cautious-*.tar.gz
	$(PYTHON) -m venv build/bare
	build/bare/bin/pip install --quiet --disable-pip-version-check dist/cautious-*.whl
	cd build/bare && bin/python -I $(CURDIR)/tests/smoke.py
	@ls -l dist

lock: .venv/ready
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile --quiet --no-header --no-annotate --no-emit-index-url --generate-hashes --universal \
	  --python-version 3.11 --all-extras --group dev pyproject.toml --output-file requirements.lock

.venv/ready: requirements.lock pyproject.toml
	@echo "Setting up .venv from requirements.lock: some minutes, once"
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch .venv/ready

clean:
	rm -rf .venv build demo dist docs/_build docs/auto_gallery docs/auto_root
