# Every task of the project; `make` lists them.
VENV := .venv
PY := $(VENV)/bin/python
PACKAGES := $(wildcard libs/*) $(wildcard services/*)
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup format lint types imports contracts tidy check test unit demo up down mutants lock clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

setup: $(STAMP) ## install everything Python needs into .venv

$(STAMP): requirements.lock $(addsuffix /pyproject.toml,$(PACKAGES))
	python3 -m venv $(VENV)
	if command -v uv >/dev/null; then uv pip sync -q --require-hashes --python $(PY) requirements.lock; \
	else $(PY) -m pip install -q --disable-pip-version-check --require-hashes -r requirements.lock; fi
	if command -v uv >/dev/null; then \
	uv pip install -q --python $(PY) --no-deps --no-build-isolation $(foreach p,$(PACKAGES),-e ./$(p)); \
	else $(PY) -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation $(foreach p,$(PACKAGES),-e ./$(p)); fi
	touch $(STAMP)

lock: ## pin every dependency anew into requirements.lock (needs uv)
	python3 deploy/lock.py

format: $(STAMP) ## format the code
	$(VENV)/bin/ruff format -q .
	$(VENV)/bin/ruff check -q --fix .

lint: $(STAMP) ## formatting and house rules
	$(VENV)/bin/ruff format -q --check .
	$(VENV)/bin/ruff check -q .

types: $(STAMP) ## mypy, strict
	$(VENV)/bin/mypy -q

imports: $(STAMP) ## who may import whom
	$(VENV)/bin/lint-imports --no-cache
