# `make demo` and `make test` need nothing but Python >= 3.10, pip and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test test-slow fuzz lint types bench bench-growth house results docs-figures clean

demo: $(VENV)/.runtime
	$(BIN)/gedi demo

test: $(VENV)/.develop
	$(BIN)/python -m pytest

test-slow: $(VENV)/.develop
	$(BIN)/python -m pytest -m slow

# More cases for the fuzzer than the tests play; the seed is printed, and a number repeats it.
FUZZ_MINUTES ?= 60
FUZZ_SEED ?= random

fuzz: $(VENV)/.develop
	PYTHONPATH=tests $(BIN)/python -m fuzz --minutes $(FUZZ_MINUTES) --seed $(FUZZ_SEED)

lint: $(VENV)/.develop
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks

types: $(VENV)/.develop
	$(BIN)/mypy

bench: $(VENV)/.develop
	$(BIN)/python benchmarks/toy_step.py
	$(BIN)/python benchmarks/sampling_memory.py
	$(BIN)/python benchmarks/startup.py

bench-growth: $(VENV)/.develop
	$(BIN)/python benchmarks/graph_growth.py

house: $(VENV)/.develop
	$(BIN)/python benchmarks/house.py

# All pages of docs/results that have rows in docs/results/rows, and the figures that come from rows;
# rows get there by `python docs/make_results.py collect NAME OUT` after `gedi reproduce NAME --out OUT`.
results: $(VENV)/.runtime
	$(BIN)/python docs/make_results.py

docs-figures: $(VENV)/.runtime
	$(BIN)/python docs/make_figures.py

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable .
	touch $@

$(VENV)/.develop: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[test]'
	touch $@ $(VENV)/.runtime
