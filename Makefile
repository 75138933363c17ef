# `make demo` and `make test` need nothing but Python >= 3.10, pip and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test test-slow lint types bench bench-growth results-shapes results-gen results-toy results-images docs-figures clean

demo: $(VENV)/.runtime
	$(BIN)/gedi demo

test: $(VENV)/.develop
	$(BIN)/python -m pytest

test-slow: $(VENV)/.develop
	$(BIN)/python -m pytest -m slow

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

# Rows are made by `gedi reproduce shapes --out $(SHAPES)`.
SHAPES ?= gedi-runs/shapes
results-shapes: $(VENV)/.runtime
	$(BIN)/python docs/make_results.py shapes $(SHAPES)

# Rows are made by `gedi reproduce gen --out $(GEN)`.
GEN ?= gedi-runs/gen
results-gen: $(VENV)/.runtime
	$(BIN)/python docs/make_results.py gen $(GEN)

# Rows and figures are made by `gedi reproduce toy --out $(TOY)`, with each preset in turn, and by
# labels, generation and sensitivity in its place.
TOY ?= gedi-runs/toy
results-toy: $(VENV)/.runtime
	$(BIN)/python docs/make_results.py toy $(TOY)

# Rows and pictures are made by `gedi reproduce images --data NAME --out $(IMAGES)`, for each set.
IMAGES ?= gedi-runs/images
results-images: $(VENV)/.runtime
	$(BIN)/python docs/make_results.py images $(IMAGES)

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
