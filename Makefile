# Every task of the project; `make` lists them.
VENV := .venv
PY := $(VENV)/bin/python
PACKAGES := $(wildcard libs/*) $(wildcard services/*)
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo backpressure-lab up down test fault-full compose-test check format lint types imports contracts tidy mutants lock clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-16s %s\n", $$1, $$2}'

setup: $(STAMP) ## install everything Python needs into .venv

$(STAMP): requirements.lock $(addsuffix /pyproject.toml,$(PACKAGES))
	python3 -m venv $(VENV)
	if command -v uv >/dev/null; then uv pip sync -q --require-hashes --python $(PY) requirements.lock; \
	else $(PY) -m pip install -q --disable-pip-version-check --require-hashes -r requirements.lock; fi
	if command -v uv >/dev/null; then \
	uv pip install -q --python $(PY) --no-deps --no-build-isolation $(foreach p,$(PACKAGES),-e ./$(p)); \
	else $(PY) -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation $(foreach p,$(PACKAGES),-e ./$(p)); fi
	touch $(STAMP)

demo: $(STAMP) ## the main job before your eyes: a campaign leaves and comes back (about two minutes)
	$(PY) deploy/local/demo.py

backpressure-lab: $(STAMP) ## backpressure before your eyes: six ways, then the real thing; a report (LAB='--help' lists its flags)
	$(PY) deploy/local/lab/run.py $(LAB)

up: $(STAMP) ## start everything and leave it running, with its addresses
	$(PY) deploy/local/demo.py --keep

down: $(STAMP) ## stop what `make up` started
	$(PY) deploy/local/stack.py down

test: $(STAMP) ## all tests, in three processes, each on a Kafka and a Postgres of its own
	$(VENV)/bin/pytest -n 3 --dist loadfile

fault-full: $(STAMP) ## the disasters at production times, outages of a minute (about half an hour); a table in .sluice/
	rm -f .sluice/fault-full.md
	SLUICE_FAULT_FULL=1 $(VENV)/bin/pytest -n 2 --dist load -o faulthandler_timeout=0 tests/fault

compose-test: $(STAMP) ## the images built, the compose file started, the demo's journey on it (needs docker)
	$(PY) tests/compose/run.py

check: lint types imports tidy ## before every commit: format, rules, types, imports, and the tests that need nothing running
	$(VENV)/bin/pytest -q tests/unit tests/contract

tidy: $(STAMP) ## the house rules
	$(VENV)/bin/pytest -q tests/tidy

mutants: $(STAMP) ## break the lines that tests guard, and see each named test go red
	$(PY) tests/mutants/run.py

contracts: $(STAMP) ## write what follows from declarations: schemas, AsyncAPI, topics.yaml, tables of topics and metrics
	$(PY) -m deploy.write_contracts

lock: ## pin every dependency anew into requirements.lock (needs uv)
	python3 deploy/lock.py

format: $(STAMP) ## format the code
	$(VENV)/bin/ruff format -q .
	$(VENV)/bin/ruff check -q --fix .

lint: $(STAMP) ## formatting and house rules
	$(VENV)/bin/ruff format -q --check .
	$(VENV)/bin/ruff check -q .

types: $(STAMP) ## mypy, strict
	$(VENV)/bin/mypy

imports: $(STAMP) ## who may import whom
	$(VENV)/bin/lint-imports --no-cache

clean: ## remove what was installed and what runs left behind
	rm -rf $(VENV) .sluice .mypy_cache .ruff_cache .pytest_cache .hypothesis
