# Two commands: `make demo` shows what chefs does, `make test` shows that it does it right.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint docs evidence bench clean

demo: .venv/installed
	@mkdir -p out && rm -f out/ring.png out/ring.html
	$(BIN)/chefs demo --out out

test: .venv/installed-dev lint
	$(BIN)/pytest -q -n 2 --dist worksteal

lint: .venv/installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/pyright --pythonpath $(BIN)/python

# One site of all pages, into out/docs: the examples are run, then it is built with warnings as errors.
docs: .venv/installed-dev
	$(BIN)/pytest -q README.md docs
	$(BIN)/sphinx-build -W --keep-going -q -c docs . out/docs
	@echo "open out/docs/index.html"

# The laws that the suite leaves out, then the laws again with many more draws and many seeds: about half an hour.
evidence: .venv/installed-dev
	$(BIN)/pytest -q -n 2 --dist worksteal -m evidence tests/laws
	$(BIN)/python -m tests.evidence --out docs/results/laws.md

bench: .venv/installed-dev
	$(BIN)/python -m benchmarks.prior
	$(BIN)/python -m benchmarks.chain
	$(BIN)/python -m benchmarks.network
	$(BIN)/python -m benchmarks.metrics
	$(BIN)/python -m benchmarks.architectures cpu

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/installed: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[plots]"
	@touch $@

.venv/installed-dev: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@ .venv/installed

clean:
	rm -rf .venv out dist
