# make run: judge this host. make test: run the tests. Both create .venv first; they need Python 3.10+ with venv and pip.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: run test lint wheel clean

run: $(VENV)/.installed
	@$(BIN)/ds-doctor run; status=$$?; echo "ds-doctor run ended with exit status $$status (0 nothing failed, 1 something failed, 3 the checks are incomplete)" >&2; \
	[ $$status -ne 2 ]

test: $(VENV)/.installed-test
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(VENV)/.installed-test
	$(BIN)/python -m mypy
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .

wheel: $(VENV)/.installed-test
	rm -rf dist && $(BIN)/python -m build --wheel --outdir dist .

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("ds-doctor needs Python 3.10 or newer; this is " + sys.version.split()[0] + ". Give another one: make PYTHON=python3.12" if sys.version_info < (3, 10) else 0)'
	$(PYTHON) -m venv $(VENV)

# Installed as users get it: the wheel, built from the tree as it stands.
SOURCES := pyproject.toml hatch_build.py rules.toml README.md $(shell find doctor checks -name '*.py' -o -name '*.toml')
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

$(VENV)/.installed: $(VENV)/bin/python $(SOURCES)
	$(PIP) --upgrade --force-reinstall --no-deps . && $(PIP) .
	touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(PIP) '.[test,dev]'
	touch $@

clean:
	rm -rf $(VENV) dist build
