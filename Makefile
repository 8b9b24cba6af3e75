# make study   the whole study: environment, seven notebooks executed, figures/ written
# make test    ruff, mypy, the tests, the notebooks compared with their stored outputs
#
# The environment lives in .venv and is made once, then again when pyproject.toml or constraints.txt change.
# To use an environment of your own (with its own torch): pip install -e '.[test]' in it, then make study PY=python

PYTHON ?= python3
PY := .venv/bin/python
JOBS ?= 2
ifeq ($(origin PY), file)
READY := .venv/.ready
endif

.PHONY: study test test-machines lint types pytest nbval browser-test lab site compile-matrix constraints clean
.DEFAULT_GOAL := study

study: $(READY)
	$(PY) -m vgg_kernels study

test: lint types pytest nbval $(if $(shell command -v chromedriver),browser-test)

lint: $(READY)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: $(READY)
	$(PY) -m mypy

pytest: $(READY)
	OMP_NUM_THREADS=1 $(PY) -m pytest -n $(JOBS) --dist worksteal

# What takes minutes: all tiers executed at further batch sizes.
test-slow: $(READY)
	OMP_NUM_THREADS=1 $(PY) -m pytest -n $(JOBS) -m slow

CHEAP := tests/correctness --ignore tests/correctness/test_kill_matrix.py

# The gate's tests where the CPU's library sums otherwise: other instruction sets, other numbers of threads.
test-machines: $(READY)
	OMP_NUM_THREADS=1 ONEDNN_MAX_CPU_ISA=SSE41 $(PY) -m pytest -n 0 -q $(CHEAP)
	OMP_NUM_THREADS=2 ONEDNN_MAX_CPU_ISA=AVX2 $(PY) -m pytest -n 0 -q $(CHEAP)
	OMP_NUM_THREADS=4 ONEDNN_MAX_CPU_ISA=AVX512_CORE ATEN_CPU_CAPABILITY=default $(PY) -m pytest -n 0 -q $(CHEAP)

# Every stored output must come out again, and every figure; conftest.py sets the rest. In an environment of your own
# matplotlib may draw otherwise, so only the figures' data are compared.
nbval: $(READY)
	@figures=$$(mktemp -d); trap 'rm -rf "$$figures"' EXIT; \
	OMP_NUM_THREADS=1 VGG_STUDY_FIGURES="$$figures" $(PY) -m pytest -n $(JOBS) --dist loadfile --nbval notebooks && \
	diff -rq $(if $(READY),,-x '*.svg') figures "$$figures"

# Needs Debian's chromium and chromium-driver packages (or CHROMIUM= and CHROMEDRIVER= paths of others).
browser-test: $(READY)
	$(PY) -m pytest -m browser tests/browser

# From the repository's folder, so that links out of notebooks/ lead somewhere.
lab: $(READY)
	$(PY) -m jupyterlab --LabApp.default_url=/lab/tree/notebooks/01_workload.ipynb

site: $(READY)
	$(PY) -m vgg_kernels dev site

# The kernels under other versions of Triton, unpacked under .cache; no GPU needed, some minutes a version.
compile-matrix: $(READY)
	$(PY) -m vgg_kernels dev matrix

constraints: $(READY)
	@{ grep '^#' constraints.txt; $(PY) -m pip freeze --exclude-editable | grep '==' | grep -v '^#' | sed 's/+.*//'; } > constraints.new
	@mv constraints.new constraints.txt

clean:
	rm -rf .venv site build .pytest_cache .ruff_cache .mypy_cache .hypothesis

.venv/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[test]' --constraint constraints.txt
	@touch $@
