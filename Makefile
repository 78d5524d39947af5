# `make` alone lists what there is; all of it prepares .venv by itself.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
BENCH_READY := .venv/.bench-ready
COMPILE := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header

.PHONY: help dev test test-host check bench chaos mutants diagram lock
help: ## One line for each target
	@sed -n 's/^\([a-z-]*\):[^#]*## /  make \1\t/p' Makefile | expand -t 20

dev: $(READY) ## All of Fencepost on this machine, until Ctrl-C (ARGS="--port-base 8480 --workers 2")
	@exec $(BIN)/python -m cli dev $(ARGS)

test: $(READY) ## The tests that need pip alone (ARGS="-k word")
	@$(BIN)/pytest -m "not host" -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)
	@echo "Left to \`make test-host\`: the tests marked \`host\`, which need Debian packages or root."

test-host: $(READY) ## The tests that need Debian packages or root; .ci/run installs those packages first
	@$(BIN)/pytest -m host $(ARGS) || { [ $$? -eq 5 ] && echo "No test is marked \`host\`, so none has run."; }

check: $(READY) ## Formatter, linter, types, import rules, migrations in step with the schema
	@$(BIN)/ruff check && $(BIN)/ruff format --check
	@$(BIN)/mypy && $(BIN)/lint-imports
	@$(BIN)/python -m dev.check_schema && $(BIN)/python -m dev.diagram --check

bench: $(BENCH_READY) ## Fencepost beside its baselines, in turn; some minutes (ARGS="--only throughput", "--help")
	@$(BIN)/python -m bench $(ARGS)

chaos: $(READY) ## Kill, stop and misuse a stack under load, then check what must hold (ARGS="--messages 300 --seed 7")
	@$(BIN)/python -m bench.chaos $(ARGS)

mutants: $(READY) ## Take out each guard in turn, and name the test that notices (long; ARGS="--help")
	@$(BIN)/python -m tests.mutation $(ARGS)

diagram: $(READY) ## Draw the lifecycle into ARCHITECTURE.md
	@$(BIN)/python -m dev.diagram

lock: ## The newest versions that pyproject.toml allows, with hashes (needs uv)
	@$(COMPILE) --upgrade pyproject.toml --output-file requirements.lock
	@$(COMPILE) --upgrade pyproject.toml --group dev --output-file requirements-dev.lock
	@$(COMPILE) --upgrade --constraint requirements-dev.lock bench/requirements.in --output-file bench/requirements.lock

$(READY): requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "Python 3.11 or newer with venv is needed (Debian: python3-venv); name one: make PYTHON=…" >&2; exit 1; }
	@echo "Preparing .venv from requirements-dev.lock; this takes a minute or two ..."
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements-dev.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(BENCH_READY): $(READY) bench/requirements.lock
	@echo "Adding to .venv what the baselines need, from bench/requirements.lock ..."
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement bench/requirements.lock
	@touch $@
