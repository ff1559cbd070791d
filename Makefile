# A newcomer needs two of these: `make demo` and `make test`. Each does the
# whole set-up on a fresh Debian 12.

PRESET ?= release
BUILD := build/$(PRESET)
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)

.DEFAULT_GOAL := help
.PHONY: help demo test bench lint tidy build install setup

help: ## Show this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 10

demo: build ## Install what is needed, build, run a real job on two ranks
	tools/demo $(BUILD)

test: build ## Install what is needed, build, run all tests
	ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS)

bench: build ## Run all benches and renew the tables of docs/
	tools/bench $(BUILD)

lint: setup ## Check format, layers, headers and forbidden calls (2 minutes)
	tools/lint $(BUILD)

tidy: build ## Run clang-tidy over all sources
	tools/tidy $(BUILD)

build: setup ## Install what is needed and build (PRESET=release|debug|asan|tsan)
	@cmake --preset $(PRESET) > $(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }
	cmake --build $(BUILD) -j $(JOBS)

install: build ## Install library, command and headers (PREFIX=/usr/local)
	cmake --install $(BUILD) --prefix $(PREFIX)

setup: ## Install the Debian packages of tools/packages.txt that are missing
	@tools/setup
	@mkdir -p build
