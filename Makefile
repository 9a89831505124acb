# Everything from a bare clone: `make demo`, `make test`. Needs Python 3.11 or newer, with venv and pip, and nothing else.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
DEMO := runs/demo

.PHONY: demo test lint types tests docs results dist clean

demo: $(VENV)/.core
	@rm -rf $(DEMO)
	$(BIN)/tailcloud train digits-lt/ce digits-lt/gcl --seed 0 --seed 1 --seed 2 --seed 3 --seed 4 --out $(DEMO)
	@$(BIN)/tailcloud report $(DEMO)/ce/seed* $(DEMO)/gcl/seed* --out $(DEMO)/report.html

test: lint types tests

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

# As many processes as there are cores, each with neighbouring tests, which share what they have trained.
# One file or test is faster in one process: .venv/bin/pytest tests/test_docs.py
tests: $(VENV)/.dev
	$(BIN)/pytest --numprocesses auto --maxprocesses 8 --dist worksteal

# The site, from docs/ and the docstrings: open site/index.html. The tests build it too, and look at it in a browser.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "site: site/index.html"

# docs/results.md and the table in README.md, from the records under benchmarks/results/
results: $(VENV)/.core
	$(BIN)/python benchmarks/render.py

# Wheel and sdist, in dist/
dist: $(VENV)/.dev
	@rm -rf dist
	$(BIN)/python -m build --outdir dist .

$(VENV)/.core: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tailcloud needs Python 3.11 or newer; name one with: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

$(VENV)/.docs: $(VENV)/.core
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

clean:
	rm -rf $(VENV) $(DEMO) site .mypy_cache .ruff_cache .pytest_cache .hypothesis
