# Two commands from a fresh clone: `make demo` and `make test`. Everything lives in .venv and .assay.
PYTHON ?= python3
# Where torch comes from: empty takes pip's own index. On Linux that build brings CUDA along (gigabytes);
# the address of PyTorch's CPU index, from its installation page, gives the small one: make demo TORCH_INDEX=…
TORCH_INDEX ?=
TORCH := torch==2.13.0
# Each has a service and a Postgres of its own, about 3 GB; three keep two cores busy. More where there are more cores and memory.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(3 if os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") > 15e9 else 2)')
export ASSAY_HOME ?= $(CURDIR)/.assay
BIN := .venv/bin
STAMP := .venv/.complete
PIP := $(BIN)/python -m pip --disable-pip-version-check
# A hundred processes of the tests and of every plan read the same modules: each would compile them anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test torture lint up bench gallery clean

help:  ## what there is to make
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(STAMP)  ## .venv with everything in it

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || \
	  { echo "assay needs Python 3.11, 3.12 or 3.13; this is $$($(PYTHON) --version 2>&1). Name another: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "this Python has no venv module; install it (Debian and Ubuntu: apt install python3-venv) and try again" >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "fetching $(TORCH) (the largest part)"
	@$(PIP) install --quiet --no-compile $(TORCH) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) || \
	  { echo "$(TORCH) could not be fetched: see pip's line above; check the network, or name an index: make $(MAKECMDGOALS) TORCH_INDEX=…" >&2; exit 2; }
	@echo "fetching the other packages (pinned in constraints.txt)"
	@$(PIP) install --quiet --no-compile --constraint constraints.txt --editable '.[all,dev]' || \
	  { echo "a package could not be fetched: pip's line above names it; check the network and run the same command again" >&2; exit 2; }
	@# All processors compile; pip's own compiling is a minute of one. Files for another Python cannot be, and need not.
	@$(BIN)/python -m compileall -qq -j 0 .venv/lib >/dev/null 2>&1 || :
	@touch $@

demo: $(STAMP)  ## measure this machine, predict, recommend: from nothing to an answer
	@$(BIN)/assay demo

up: $(STAMP)  ## the API and the dashboard over what the demo kept
	@$(BIN)/assay up

test: $(STAMP) lint  ## lint, types, import contracts and every test
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

torture: $(STAMP)  ## the long tests: kills, full disks, hostile input, further models and looks (about 45 minutes)
	@$(BIN)/python -m pytest -m torture -x

lint: $(STAMP)  ## ruff, mypy --strict, import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

bench: $(STAMP)  ## the speed and truth of Assay itself, as ratios against peers and limits (about two hours)
	@$(BIN)/python -m benchmarks.reference_timers; measured=$$?; $(BIN)/python -m benchmarks.memory; \
	  $(BIN)/python -m benchmarks.stopping; $(BIN)/python -m benchmarks.labels; $(BIN)/python -m benchmarks && exit $$measured

gallery: $(STAMP)  ## the pictures of docs/gallery.md, from the measurements in data/ (about three minutes)
	@$(BIN)/python -m benchmarks.pictures

clean:  ## forget .venv and the demo's data
	rm -rf .venv .bench-venv .assay
