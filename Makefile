# make run    optimise silu_and_mul: asks at a terminal, decides by policy without one
# make test   lint, types, import rules, tests
# Both set everything up first, in .venv; a second call finds it done.
#
# TORCH=cpu or TORCH=cuda chooses the PyTorch that is installed: the one with CUDA takes 4 GB more.
# Without either, cpu is taken where there is no NVIDIA driver.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
SETUP := $(VENV)/.set-up
TORCH ?= $(shell command -v nvidia-smi >/dev/null 2>&1 || \
  $(PYTHON) -c 'import ctypes; ctypes.CDLL("libcuda.so.1")' 2>/dev/null && echo cuda || echo cpu)
# PyPI's PyTorch for Linux needs CUDA's libraries to be imported; this index has it without them.
TORCH_CPU_INDEX ?= https://download.pytorch.org/whl/cpu
OLD_NVRTC := .nvrtc-13.0
# Tests that wait for processes leave room for one more than there are processors.
# Processes that tests start load what others have compiled.
export PYTHONDONTWRITEBYTECODE :=
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(1 + (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1))')

.PHONY: run test lint types imports pytest docs bench upstream clean nvrtc-13.0

run: $(SETUP)
	@if [ -t 0 ] && [ -t 2 ]; then \
	  $(BIN)/astra-tui run silu_and_mul; \
	else \
	  $(BIN)/astra-tui run silu_and_mul --headless --approve auto; \
	fi

# Types are looked at beside the tests, since that takes one processor half a minute.
test: lint
	@$(MAKE) --no-print-directory --jobs 3 imports types pytest

lint: $(SETUP)
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .

types: $(SETUP)
	$(BIN)/mypy

imports: $(SETUP)
	$(BIN)/lint-imports --no-logo

pytest: $(SETUP) $(OLD_NVRTC)/.set-up
	$(BIN)/pytest -n $(WORKERS) --dist worksteal

# Writes the pages of docs/ that follow from tables in the code.
docs: $(SETUP)
	$(BIN)/python docs/generate.py

# Drafts every kernel of three pinned packages and looks for findings; resumes in .upstream. See
# docs/upstream.md and docs/findings.
upstream: JOBS = 1
upstream: $(SETUP)
	$(BIN)/python benchmarks/upstream_drafts.py .upstream --jobs $(JOBS) --page
	$(BIN)/python benchmarks/upstream_findings.py .upstream --jobs $(JOBS) --page

bench: $(SETUP)
	$(BIN)/python benchmarks/emulator_speed.py
	$(BIN)/python benchmarks/check_latency.py

nvrtc-13.0: $(OLD_NVRTC)/.set-up

$(SETUP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "astra-tui needs Python 3.11 or newer; say: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@if [ "$(TORCH)" = cpu ]; then \
	  echo "PyTorch without CUDA, from $(TORCH_CPU_INDEX)"; \
	  $(PIP) --retries 1 --no-deps -c constraints.txt --index-url $(TORCH_CPU_INDEX) torch || \
	  echo "that cannot be had; the one with CUDA follows, 4 GB more (README, Size)"; \
	fi
	$(PIP) -c constraints.txt -e '.[dev]'
	@touch $@

# The oldest NVRTC that is supported, next to the newest one in the environment.
$(OLD_NVRTC)/.set-up: $(SETUP)
	$(PIP) --no-deps --upgrade --target $(OLD_NVRTC) nvidia-cuda-nvrtc==13.0.88
	@touch $@

clean:
	rm -rf $(VENV) $(OLD_NVRTC) .astra .golden .mypy_cache .ruff_cache .pytest_cache .hypothesis
