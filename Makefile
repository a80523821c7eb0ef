# Everything happens in .venv, made from nothing but Python 3.11 or newer and make.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
INPUTS := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.PHONY: help setup demo serve test acceptance check stubs bench ctranslate2 minimal clean

help: ## this list
	@grep -hE '^[a-z0-9]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 13

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("Regard needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv .venv

.venv/served: $(INPUTS) | $(BIN)/python
	@echo "installing what demo and serve need (no torch) ..."
	@$(PIP) install -c constraints.txt -e '.[pictures,serve,loadtest]'
	@touch $@

.venv/developed: $(INPUTS) | $(BIN)/python
	@echo "installing everything, torch included ..."
	@$(PIP) install -c constraints.txt -e '.[dev]'
	@touch $@ .venv/served

setup: .venv/developed ## install everything, for work on the project

demo: .venv/served ## translate, caption, draw, load-test: the whole product in a minute
	@$(BIN)/regard demo

serve: .venv/served ## serve the embedded models on 127.0.0.1:50051
	@$(BIN)/regard serve

test: .venv/developed ## the whole test suite, a file to a process, at most four at once
	@$(BIN)/python -m pytest --numprocesses logical --maxprocesses 4 --dist loadfile

acceptance: .venv/developed ## failures known from other systems, tried on a running server: expected and got
	@$(BIN)/python -m tests.acceptance

check: .venv/developed ## format, lint, types, import arrows, protos and their stubs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/buf lint
	@! git rev-parse --verify --quiet origin/main:proto >/dev/null || $(BIN)/buf breaking --against '.git#branch=origin/main'
	$(BIN)/pyright
	$(BIN)/python -m pytest -q tests/contract/test_stubs.py

stubs: .venv/developed ## regenerate the protobuf and gRPC stubs
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m grpc_tools.protoc -Iproto --python_out=proto --mypy_out=quiet:proto proto/regard/v1/*.proto
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m grpc_tools.protoc -Iproto --grpc_python_out=proto --mypy_grpc_out=quiet:proto $$(grep -l '^service ' proto/regard/v1/*.proto)

bench: .venv/developed ## speed and memory of the embedded model, side by side with torch
	@$(BIN)/python -m regard.benches.recurrent

ctranslate2: ## an environment of its own with CTranslate2, for `regard bench engine`
	@$(PYTHON) -m venv .venv-ctranslate2
	@.venv-ctranslate2/bin/python -m pip --disable-pip-version-check --quiet install -r benches/engine/ctranslate2.txt

minimal: ## install the serve extra alone and the client alone, and have them talk
	@for each in serve client; do $(PYTHON) -m venv --clear .venv-$$each; done
	@.venv-serve/bin/python -m pip --disable-pip-version-check --quiet install -c constraints.txt '.[serve]'
	@.venv-client/bin/python -m pip --disable-pip-version-check --quiet install -c constraints.txt ./packages/regard-client
	@$(PYTHON) tests/contract/minimal.py .venv-serve/bin/python .venv-client/bin/python

clean: ## remove the environments
	rm -rf .venv .venv-serve .venv-client .venv-ctranslate2
