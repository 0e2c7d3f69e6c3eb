# SPDX-License-Identifier: Apache-2.0
# The words that a person types. meson does the building; tools/ does the rest.
#
#   make demo    bare machine to running demonstration        make check   every test
#   make build   make install | uninstall   make test (the quick part of check)
#   make lint | asan | tsan | coverage | clang | lto | cross | without | fuzz [SECONDS=10 for each fuzzer]
#   make check-distros: the same in bare trees of Debian 12, 13 and unstable
#   make install [PREFIX=~/.local]: the programs, without tests, into /usr/local
#   make dist: a source tarball, in build/packages
#   make deb: that, and Debian packages built from it
#   make check-guest: CRIU's plugin, with each CRIU there is, in a guest that has AMD's render nodes and /dev/kfd
#   make check-kubernetes: Pods with parts of simulated GPUs on two nodes of Kubernetes 1.20.2, or of what
#     is in KUBERNETES_TREE=FOLDER (tools/kubernetes)
#   make image: an OCI image of these for nodes of Kubernetes, build/allot-image.tar
#   make check-packages: these, installed and removed in a bare tree

BUILD ?= build
SECONDS ?= 10
MESON := tools/meson
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
SETUP_FLAGS ?=

.DEFAULT_GOAL := build
.PHONY: setup setup-check build demo test check check-distros check-guest check-kubernetes check-packages dist deb image lint asan tsan \
	coverage cross without clang lto fuzz install uninstall docs clean

setup:
	@tools/setup build

setup-check:
	@tools/setup check

# What it probes is of interest when it fails.
$(BUILD)/build.ninja:
	@log=$$(mktemp) && trap 'rm -f "$$log"' EXIT && \
		{ $(MESON) setup $(SETUP_FLAGS) $(BUILD) >"$$log" 2>&1 || \
			{ status=$$?; cat "$$log" >&2; exit $$status; }; }

NINJA = "$$($(MESON) --find-ninja)" -C $(BUILD) --quiet

build: setup
	@$(MAKE) -s $(BUILD)/build.ninja
	@$(NINJA) | { grep -v "no work to do" || true; }

# Whoever wants to see it need not build the tests.
demo: setup
	@$(MAKE) -s $(BUILD)/build.ninja
	@$(NINJA) demo-programs | { grep -v "no work to do" || true; }
	@BUILD=$(BUILD) tools/demo

test: setup
	@BUILD=$(BUILD) tools/check gcc

check: setup-check
	@BUILD=$(BUILD) tools/check

check-distros:
	@tools/distros

check-guest: build
	@tests/guest/run $(BUILD)

check-kubernetes: build
	@tree=$$(BUILD=$(BUILD) tools/kubernetes) && \
		export ALLOT_BUILD=$(BUILD) KUBERNETES=$$tree && \
		python3 -B tests/kubernetes/pods.py -v && python3 -B tests/kubernetes/mounts.py -v && \
		python3 -B tests/kubernetes/dra.py -v && python3 -B tests/kubernetes/daemonset.py -v

# Packages are built elsewhere, without tests: this folder is asked for the tarball alone.
deb: setup
	@$(MAKE) -s $(BUILD)/build.ninja
	@BUILD=$(BUILD) tools/deb

image: deb
	@BUILD=$(BUILD) tools/image

check-packages: deb
	@BUILD=$(BUILD) tools/packages

lint clang lto asan tsan coverage cross without: setup-check
	@BUILD=$(BUILD) tools/check $@

fuzz: setup-check
	@BUILD=$(BUILD) FUZZ_SECONDS=$(SECONDS) tools/check fuzz

# The programs alone. A place that is not writable is said before anything is built.
install:
	@PREFIX=$(PREFIX) DESTDIR=$(DESTDIR) tools/install check
	@tools/setup build
	@$(MAKE) -s $(BUILD)/build.ninja
	@BUILD=$(BUILD) PREFIX=$(PREFIX) DESTDIR=$(DESTDIR) tools/install install

uninstall:
	@BUILD=$(BUILD) PREFIX=$(PREFIX) DESTDIR=$(DESTDIR) tools/install uninstall

dist: setup
	@$(MAKE) -s $(BUILD)/build.ninja
	@BUILD=$(BUILD) tools/dist

clean:
	rm -rf build build-*

docs:
	@tools/api_coverage.py --write
