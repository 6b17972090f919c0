# faultprof: `make demo` and `make test` do everything, from a bare Debian 12 or 13 on.
#
#   make demo    set up, record the bundled usemem, print its call trees
#   make test    set up, run the whole suite (tests/unit, tests/host, tests/kernels)
#   make lint    ruff and mypy
#   make bench   paired, interleaved benchmark rows
#   make browser pictures and pages in headless Chromium, which it installs
#
# All of it is safe to repeat. What needs root says so, with the command.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:

# The distribution's own Python: its bcc is built for no other.
PYTHON ?= /usr/bin/python3
VENV := .venv
BIN := $(VENV)/bin

RUN_PACKAGES := python3-bpfcc python3-venv gcc libc6-dev
# tests/kernels installs what its virtual machines need by itself.
TEST_PACKAGES := $(RUN_PACKAGES) bpftool linux-perf procps sudo binutils dwz

.PHONY: demo test lint bench browser setup setup-dev clean

demo: setup
	@examples/demo.sh $(BIN)/faultprof

test: setup-dev
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: setup-dev
	$(BIN)/python -m tests.bench

# Apart from the suite: the browser is a download of 100 MB.
browser: setup-dev
	@$(call need_packages,chromium)
	$(BIN)/python -m pytest tests/browser $(PYTEST_ARGS)

setup: $(VENV)/run
	@$(call need_packages,$(RUN_PACKAGES))

setup-dev: $(VENV)/dev
	@$(call need_packages,$(TEST_PACKAGES))

$(VENV)/run: pyproject.toml
	@$(call need_packages,$(RUN_PACKAGES))
	$(PYTHON) -m venv --system-site-packages $(VENV)
	$(BIN)/pip install --quiet --editable .
	@touch $@

$(VENV)/dev: pyproject.toml $(VENV)/run
	$(BIN)/pip install --quiet --editable '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis

# Installs the Debian packages of the list that are missing; without root, says which command to run.
define need_packages
missing=(); \
for package in $(1); do \
	dpkg-query -W -f '$${db:Status-Status}' "$$package" 2>/dev/null | grep -qx installed \
		|| missing+=("$$package"); \
done; \
if [[ $${#missing[@]} -eq 0 ]]; then :; \
elif ! command -v apt-get >/dev/null; then \
	echo "make: this is no Debian; install what it calls: $${missing[*]}" >&2; exit 1; \
elif [[ $$EUID -ne 0 ]]; then \
	echo "make: packages are missing and installing them needs root; run this, then make again:" >&2; \
	echo "    sudo apt-get install --no-install-recommends $${missing[*]}" >&2; exit 1; \
else \
	apt-get -qq update; \
	DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends "$${missing[@]}" \
		>/dev/null; \
fi
endef
