# The five commands of a contributor. They use the active virtual environment, or .venv if none is.
PYTHON ?= python3
ifndef VIRTUAL_ENV
export PATH := $(CURDIR)/.venv/bin:$(PATH)
endif

.PHONY: help setup test check generate ci

help:  ## list these commands
	@sed -n 's/^\([a-z]*\):.*## /\1: /p' $(MAKEFILE_LIST)

setup:  ## make .venv with both distributions and the tools
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install -e ./client -e '.[dev]'

test:  ## run the default suite, on all cores
	pytest -q

check:  ## check style, types and the direction of imports
	ruff check .
	ruff format --check .
	mypy
	lint-imports

generate:  ## write the stubs, the golden vectors and the table of learners again (minutes)
	./protos/generate
	PYTHONPATH=.:protos:client:aggregator:simulation python -m tests.vectors.generate
	python benchmarks/learners.py --write docs/learners.md

ci:  ## run all that CI checks, in fresh environments
	bash .ci/run
