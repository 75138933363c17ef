# `make demo` and `make test` need nothing but Python >= 3.10, pip and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test test-slow fuzz lint types bench bench-growth house results results-check \
	docs docs-figures docs-pages clean

demo: $(VENV)/.runtime
	$(BIN)/python docs/demo.py

# A process on each core. A core without work takes the last tests of the other: those of a file,
# which share fits, mostly stay together.
test: $(VENV)/.develop
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal

test-slow: $(VENV)/.develop docs
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
	$(BIN)/python benchmarks/small_fit.py

bench-growth: $(VENV)/.develop
	$(BIN)/python benchmarks/graph_growth.py

house: $(VENV)/.develop
	$(BIN)/python benchmarks/house.py

# All pages of docs/results that have rows in docs/results/rows, and the figures that come from rows;
# rows get there by `python docs/make_results.py collect NAME OUT` after `gedi reproduce NAME --out OUT`.
results: $(VENV)/.runtime
	$(BIN)/python docs/make_results.py

# Names the rows that this code would change; `make test-slow` does too.
results-check: $(VENV)/.runtime
	$(BIN)/python docs/make_results.py check

docs-figures: $(VENV)/.runtime
	$(BIN)/python docs/make_figures.py

# The gallery with its pictures, the picture of the README, and the notebooks of the tutorials.
docs-pages: $(VENV)/.runtime
	$(BIN)/python docs/make_readme_picture.py
	$(BIN)/python docs/make_gallery.py
	$(BIN)/python docs/make_notebooks.py

# The site, into the folder `site`. A warning or a broken link is an error, but not with --quiet, which
# hides warnings from --strict. The variable turns off a notice of the theme, kept up until May 2027.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

clean:
	rm -rf $(VENV) site .mypy_cache .pytest_cache .ruff_cache

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable .
	touch $@

$(VENV)/.develop: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[test]'
	touch $@ $(VENV)/.runtime

$(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[docs]'
	touch $@ $(VENV)/.runtime
