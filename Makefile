# Everything starts here: `make` lists what there is.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/bash

PYTHON     ?= python3
BACKEND    ?= auto
EXPERIMENT ?= experiments/quickstart.yaml
SCALE      ?= laptop
RESULTS    ?= results

VENV := .venv
BIN  := $(CURDIR)/$(VENV)/bin
C_FILES = $(shell git ls-files -co --exclude-standard '*.c' '*.h')
SHELL_FILES = .ci/run $(shell git ls-files -co --exclude-standard '*.sh')

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-zA-Z0-9_-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "  Variables: BACKEND=auto|local|docker EXPERIMENT=path.yaml SCALE=smoke|laptop|paper RESULTS=folder PYTHON=python3"

.PHONY: experiment
experiment: build ## Run an experiment: CSVs, figures and a page under results/
	$(BIN)/mpibed run $(EXPERIMENT) --backend $(BACKEND) --scale $(SCALE) --results $(RESULTS)

.PHONY: papers
papers: build ## Run every manifest of the papers at a scale, and write one page over all of them
	@failed=0; for manifest in experiments/papers/*/*.yaml; do \
	  echo "== $$manifest"; \
	  $(BIN)/mpibed run $$manifest --backend $(BACKEND) --scale $(SCALE) --results $(RESULTS) --quiet || failed=1; \
	done; $(BIN)/mpibed report --results $(RESULTS); exit $$failed

.PHONY: test
test: build ## Run all tests; MPIBED_REQUIRE=local,docker makes a missing piece a failure
	$(BIN)/python -m pytest

.PHONY: lint
lint: build ## Check style, types, layers and C warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/clang-format --dry-run -Werror $(C_FILES)
	bash -n $(SHELL_FILES)

.PHONY: images
images: setup ## Build the node image that the docker backend uses
	$(BIN)/python -m orchestrator.backends.image

.PHONY: bench
bench: build ## Print mpibed's speed as ratios against named peers
	$(BIN)/python -m bench

.PHONY: setup
setup: $(VENV)/.installed ## Make .venv with the locked dependencies

$(VENV)/.installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$(PYTHON) is older than 3.11; name a newer one: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "$(PYTHON) cannot make virtual environments; on Debian: apt install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: build
build: setup build/node/build.ninja ## Build the programs that run inside nodes
	@$(BIN)/cmake --build build/node -- --quiet

build/node/build.ninja: images/node/src/CMakeLists.txt $(VENV)/.installed
	@command -v cc >/dev/null || { echo "there is no C compiler; on Debian: apt install gcc libc6-dev"; exit 1; }
	PATH="$(BIN):$$PATH" $(BIN)/cmake -S images/node/src -B build/node -G Ninja -DCMAKE_C_COMPILER=$(BIN)/mpicc --log-level=WARNING

.PHONY: lock
lock: setup ## Make requirements.lock anew from pyproject.toml (needs uv)
	uv pip compile --universal --python-version 3.11 --generate-hashes --extra dev --no-emit-index-url --no-annotate \
	  --no-header --quiet pyproject.toml --output-file requirements.lock

.PHONY: clean
clean: ## Remove what make made, except results
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
