# Two commands need nothing but Python 3.11+, make and a package registry:
#   make demo     the main job on an embedded default
#   make test     the tests
# `make` alone is all that CI runs.

TORCH  ?= 2.13.0
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN    := .venv/bin
READY  := .venv/ready

.PHONY: all demo test test-slow format lint types layers docs docs-fresh fix clean
.DEFAULT_GOAL := all

all: format lint types layers docs-fresh test

demo: $(READY)
	@$(BIN)/pitstop demo

test: $(READY)
	$(BIN)/pytest -n 2 --dist loadfile

test-slow: $(READY)
	$(BIN)/pytest -n 2 --dist loadfile -m slow

format: $(READY)
	$(BIN)/ruff format --check

lint: $(READY)
	$(BIN)/ruff check

types: $(READY)
	$(BIN)/mypy

layers: $(READY)
	$(BIN)/lint-imports

docs: $(READY)
	$(BIN)/pitstop rules --markdown > docs/rules.md
	$(BIN)/python -m pitstop.report.json_page > docs/json.md

docs-fresh: $(READY)
	@$(BIN)/pitstop rules --markdown | diff -u docs/rules.md - && \
	$(BIN)/python -m pitstop.report.json_page | diff -u docs/json.md - \
	|| { echo "docs are stale: run make docs"; exit 1; }

fix: $(READY)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist

# torch comes first and pinned, so that nothing after it can pull another build.
$(READY): pyproject.toml Makefile
	@test -n "$(PYTHON)" || { echo "pitstop: no Python 3.11 or newer found:" \
	"install one, or name it with make PYTHON=/path/to/python3"; exit 2; }
	@echo "setting up .venv with $$($(PYTHON) --version) (a few minutes the first time)"
	@test -x $(BIN)/pip || $(PYTHON) -m venv --clear .venv >/dev/null || { rm -rf .venv; \
	echo "pitstop: $(PYTHON) cannot create virtual environments: on Debian, apt-get install python3-venv"; exit 2; }
	@echo "torch==$(TORCH)" > .venv/constraints.txt
	@echo "  1/2 torch $(TORCH)"
	@$(BIN)/pip install -qq --constraint .venv/constraints.txt torch numpy || { \
	echo "pitstop: could not install torch $(TORCH): is the package registry within reach?"; exit 2; }
	@echo "  2/2 pitstop and what its tests need"
	@$(BIN)/pip install -qq --constraint .venv/constraints.txt --editable '.[dev]' || { \
	echo "pitstop: could not install the dependencies: is the package registry within reach?"; exit 2; }
	@touch $@
