# make demo   set up, train two models on Python's own documentation, compare, generate
# make test   set up and run the whole suite
# make lint   ruff and strict mypy
#
# PYTHON=python3.12 chooses the interpreter, PIP_FLAGS=... goes to every pip install.

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && echo $$p && break; done)
PIP := $(BIN)/python -m pip --disable-pip-version-check
PIP_FLAGS ?=

.PHONY: demo test lint clean

demo: $(VENV)/package
	$(BIN)/ostinato demo

test: $(VENV)/tools
	$(BIN)/python -m pytest -n auto

lint: $(VENV)/tools
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "Ostinato needs Python 3.11, 3.12 or 3.13; name it with PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "This Python cannot make a virtual environment; \
	on Debian and Ubuntu: apt install python3-venv"; exit 1; }

$(VENV)/package: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install $(PIP_FLAGS) -c constraints.txt -e .
	touch $@

$(VENV)/tools: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install $(PIP_FLAGS) -c constraints.txt -e '.[dev]'
	touch $@ $(VENV)/package

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
