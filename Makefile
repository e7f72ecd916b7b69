# Everything runs from Python 3.11+ and make; each target does its own set-up, once.
#
# PYTHON picks the interpreter, VENV where its environment goes:
#   make test PYTHON=python3.13 VENV=.venv-3.13

VENV ?= .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
# The lock is complete, so there is nothing to resolve; and what is never imported need not be compiled.
PIP_INSTALL := -m pip install -qq --disable-pip-version-check --no-deps --no-compile
SOURCES := $(wildcard src tests bench examples tools)

MAKEFLAGS += --no-builtin-rules --no-print-directory
.SUFFIXES:

# Tests start many processes, and without this each of them would compile Redrive anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## show this list (the default)
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(VENV)-demo/ready ## open a small shop whose messages fail, in your browser
	@$(VENV)-demo/bin/redrive demo $(DEMO)

CORES := $(shell getconf _NPROCESSORS_ONLN)
# Twice as many as there are cores: a test waits for databases and processes for half of its time.
JOBS ?= $(shell expr $(CORES) \* 2)
# worksteal: who has nothing left takes over what others have not begun, so that nobody is last with a long list.
PYTEST := -m pytest --quiet --numprocesses $(JOBS) --dist worksteal

.PHONY: test
test: $(VENV)/ready ## check, then run all tests
	@$(MAKE) --jobs $(CORES) --keep-going $(CHECKS) $(VENV)/compiled
	@$(MAKE) browser
	@$(PY) $(PYTEST)

# Chromium from Debian's packages, unless there is one; that needs root, and is not an error without it.
.PHONY: browser
browser: $(VENV)/ready
	@$(PY) -m tests.browser.chromium

# Apart from `test`, because watching every branch makes the tests take half as long again.
.PHONY: coverage
coverage: $(VENV)/ready ## run all tests and show the branches they miss; too many is an error
	@$(PY) $(PYTEST) --cov --cov-report term

CHECKS := ruff-check ruff-format mypy basedpyright lint-imports

.PHONY: check $(CHECKS)
check: $(VENV)/ready ## lint, types, the direction of imports
	@$(MAKE) --jobs $(CORES) --keep-going $(CHECKS)

# Each process of tests would compile the tests that were not compiled before: all of them at first. So one does it, while
# the checks run.
$(VENV)/compiled: $(VENV)/ready $(wildcard tests/*.py tests/*/*.py tests/*/*/*.py)
	@$(call quietly,pytest --collect-only -qq)
	@touch $@

$(CHECKS): $(VENV)/ready
ruff-check:
	@$(call quietly,ruff check $(SOURCES))
ruff-format:
	@$(call quietly,ruff format --check $(SOURCES))
mypy:
	@$(call quietly,mypy)
basedpyright:
	@$(call quietly,basedpyright --pythonpath $(PY) --warnings)
lint-imports:
	@$(call quietly,lint-imports --no-logo)

TIMES ?= 10

.PHONY: steady
steady: $(VENV)/ready ## run `make test` 10 times (TIMES=10) on busy cores; stop when it fails
	@mkdir -p .steady; busy=; trap 'kill $$busy' EXIT; trap 'exit 130' INT TERM; \
	for core in $$(seq $(CORES)); do (while :; do :; done) & busy="$$busy $$!"; done; \
	for run in $$(seq $(TIMES)); do \
	  log=.steady/$$run.txt; began=$$(date +%s); status=0; \
	  $(MAKE) test >$$log 2>&1 || status=$$?; \
	  echo "run $$run of $(TIMES): $$(( $$(date +%s) - began )) s; $$(grep -E ' in [0-9.]+s' $$log | tail -n 1)"; \
	  if [ $$status -ne 0 ]; then echo "it failed; its output is in $$log" >&2; exit 1; fi; \
	  rm $$log; \
	done

.PHONY: format
format: $(VENV)/ready ## put the code in shape and mend what ruff can
	@$(BIN)/ruff check --quiet --fix-only $(SOURCES)
	@$(BIN)/ruff format --quiet $(SOURCES)

.PHONY: api
api: $(VENV)/ready ## rewrite the reviewed list of public names
	@$(PY) -m tests.contract.surface

.PHONY: house
house: $(VENV)/ready ## count sizes, imports, duplicate names and words to avoid; LIST=1 names them
	@$(PY) tools/house.py $(if $(LIST),--list)

.PHONY: blocking
blocking: $(VENV)/ready ## write the blocking twins of broker and recovery anew
	@$(PY) tools/generate_blocking.py
	@$(BIN)/ruff format --quiet src/redrive/broker/blocking.py src/redrive/recovery/blocking.py

.PHONY: vendor
vendor: $(VENV)/ready ## fetch the fonts, icons and scripts of the console and its tests anew; needs npm
	@$(PY) tools/vendor.py

.PHONY: torture
torture: $(VENV)/ready ## run the long races and crash loops; about an hour
	@HYPOTHESIS_PROFILE=thorough $(PY) $(PYTEST) -m torture --ignore tests/scenarios
	@$(PY) -m pytest --quiet --capture no -m torture tests/scenarios

.PHONY: bench
bench: $(VENV)-bench/ready ## measure Redrive beside its peers
	@$(VENV)-bench/bin/python bench/retry.py
	@$(VENV)-bench/bin/python bench/queues.py
	@$(VENV)-bench/bin/python bench/queues.py --engine postgres
	@$(VENV)-bench/bin/python bench/queues.py --engine nats
	@$(VENV)-bench/bin/python bench/recovery.py
	@$(VENV)-bench/bin/python bench/routes.py
	@$(VENV)-bench/bin/python bench/routes.py --engine postgres
	@$(VENV)-bench/bin/python bench/direct_routes.py
	@$(VENV)-bench/bin/python bench/pipeline.py
	@$(VENV)-bench/bin/python bench/server.py

.PHONY: lock
lock: ## pin the development tools anew; UPGRADE=1 moves them to their newest versions
	@$(call new_environment,.venv-lock)
	@.venv-lock/bin/python $(PIP_INSTALL) uv
	@$(call compile,uv,--group install)
	@$(call compile,dev,pyproject.toml --group dev --extra all)
	@$(call compile,bench,pyproject.toml --group bench --constraint requirements/dev.txt)
	@$(call compile,demo,pyproject.toml --group build --extra cli --extra pipeline --extra routes --extra server --constraint requirements/dev.txt)
	@rm -rf .venv-lock

.PHONY: clean
clean: ## remove the environments and everything that tools left behind
	@rm -rf $(VENV) $(VENV)-bench $(VENV)-demo .venv-lock dist .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache .steady

# A tool's output is worth reading only when it found something.
define quietly
echo "$(1)"; output=$$($(BIN)/$(1) 2>&1) || { echo "$$output"; exit 1; }
endef

# --- environments -----------------------------------------------------------------------------------------------------
# An environment is ready when its file `ready` exists. It is written last, so an interrupted set-up starts anew; and it is
# rebuilt from nothing when a lock changes, so that no tool is left over from another commit.

$(VENV)/locked: requirements/dev.txt requirements/uv.txt
	@$(call new_environment,$(VENV))
	@$(call install,$(VENV),--require-hashes -r requirements/dev.txt)
	@touch $@

# Small, so that a first look does not take minutes: what the demo imports and what builds it, no development tools.
$(VENV)-demo/locked: requirements/demo.txt requirements/uv.txt
	@$(call new_environment,$(VENV)-demo)
	@echo "installing what the demo needs there, once"
	@$(call install,$(VENV)-demo,--require-hashes -r requirements/demo.txt)
	@touch $@

$(VENV)-bench/locked: requirements/dev.txt requirements/bench.txt requirements/uv.txt
	@$(call new_environment,$(VENV)-bench)
	@$(call install,$(VENV)-bench,--require-hashes -r requirements/dev.txt -r requirements/bench.txt)
	@touch $@

%/ready: %/locked pyproject.toml
	@$(call install,$*,--no-build-isolation --editable .)
	@touch $@

.SECONDARY:

# Naming a Python is not having it (pyenv's shims, Debian without python3-venv): each candidate must really run.
define new_environment
for python in $(PYTHON) $(if $(PYTHON),,python3.11 python3.12 python3.13 python3.14 python3 python); do \
  if $$python -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
    echo "setting up $(1) with $$($$python --version)"; \
    exec $$python -m venv --clear $(1); \
  fi; \
done; \
echo "no Python 3.11 or newer with its venv module: install one (Debian, Ubuntu: apt install python3-venv)," >&2; \
echo "or say where it is: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; \
exit 1
endef

# uv does in seconds what takes pip a minute or two. It does not read pip's settings: where it cannot reach the packages,
# it says so, and pip installs them.
define install
$(1)/bin/python $(PIP_INSTALL) --require-hashes -r requirements/uv.txt; \
$(1)/bin/uv pip install --quiet --no-deps --python $(1)/bin/python $(2) || $(1)/bin/python $(PIP_INSTALL) $(2)
endef

# Universal: one lock for every Python from 3.11 and every platform.
define compile
.venv-lock/bin/uv pip compile $(2) $(if $(UPGRADE),--upgrade) \
  --universal --python-version 3.11 --generate-hashes \
  --quiet --custom-compile-command 'make lock' --output-file requirements/$(1).txt
endef
