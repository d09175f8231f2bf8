# Everything a contributor runs. `make` alone lists it.
# Needs python3 (3.11 or later) and make; `make setup` installs the rest into .venv.

PYTHON ?= python3
BIN    := .venv/bin
SYNC   := $(BIN)/uv pip sync --quiet --require-hashes --python $(BIN)/python requirements-setup.lock requirements-dev.lock
LOCK   := $(BIN)/uv --system-certs pip compile --quiet --upgrade --universal --generate-hashes --no-header --no-annotate

.DEFAULT_GOAL := help
.PHONY: help setup demo example test check tests format lock bench docs simulations pictures schema clean

help:  ## list these commands
	@awk -F ':.*##' '/^[a-z]+:.*##/ {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/.fresh  ## build .venv with everything (does nothing when it is fresh)

.venv/.fresh: pyproject.toml requirements-setup.lock requirements-dev.lock
	@$(PYTHON) tools/python_version.py
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-setup.lock
	@$(SYNC) --system-certs 2>/dev/null || $(SYNC)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
	@echo ".venv is ready: .venv/bin/seawall --help"

demo: setup  ## see it work, in a few seconds
	@$(BIN)/seawall demo

NAME ?= llm_reports
example: setup  ## play an example, such as make example NAME=converter (docs/examples has them all)
	@$(BIN)/python -m examples.$(NAME)

test: check tests  ## everything that must pass: lint, types, import contracts, tests

check: setup  ## lint, format, types, import contracts
	@$(BIN)/python tools/check.py

# Many tests wait for processes, leases and clocks: two for each core keep the cores busy.
tests: setup check
	@PYTEST_XDIST_AUTO_NUM_WORKERS=$${PYTEST_XDIST_AUTO_NUM_WORKERS:-$$(( 2 * $$(getconf _NPROCESSORS_ONLN) ))} $(BIN)/python -m pytest -n auto --dist worksteal

format: setup  ## rewrite the code in the project's format
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format --quiet .

docs: setup  ## write the generated parts of docs/ anew from the code, and build the site
	@$(BIN)/python tools/generate_docs.py
	@$(BIN)/python tools/build_site.py

simulations: setup  ## run the simulations of docs/simulator.md anew (some minutes)
	@$(BIN)/python tools/simulate_docs.py

pictures: setup  ## take the pictures of the dashboard anew (needs Chromium)
	@PYTHONPATH=. $(BIN)/python tools/take_pictures.py

schema: setup  ## write each store's schema.sql anew from its migrations
	@$(BIN)/python tools/generate_schema.py

lock: setup  ## renew the requirements*.lock files
	@echo "uv" | $(LOCK) --output-file requirements-setup.lock -
	@$(LOCK) --all-extras --output-file requirements.lock pyproject.toml
	@$(LOCK) --all-extras --group dev --output-file requirements-dev.lock pyproject.toml

bench: setup  ## what decisions and the store's verbs cost, and seawall beside other queues (an hour)
	@$(BIN)/python bench/decide.py
	@$(BIN)/python bench/store.py
	@$(BIN)/python bench/claim.py
	@$(BIN)/python bench/compare.py
	@$(BIN)/python bench/growth.py
	@$(BIN)/python bench/runs.py
	@$(BIN)/python bench/web.py
	@$(BIN)/python bench/pages.py

clean:  ## remove what these commands made
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .bench site
