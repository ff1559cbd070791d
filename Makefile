# A newcomer needs two of these: `make demo` and `make test`. Each installs the
# packages that it needs on a fresh Debian 12, and builds only what it uses.

PRESET ?= release
BUILD := build/$(PRESET)
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)

.DEFAULT_GOAL := help
.PHONY: help demo test soak sanitize bench lint tidy build install setup

# $(call configure,OPTIONS): a new build folder begins with the library and the
# command alone, and each target adds what it needs; nothing is taken away, so
# that targets share what they have built.
NOTHING := -DARGOSY_BUILD_TESTS=OFF -DARGOSY_BUILD_BENCH=OFF -DARGOSY_BUILD_PYTHON=OFF
configure = @tools/timed "configure (10 s)" cmake --preset $(PRESET) \
	$(if $(wildcard $(BUILD)/CMakeCache.txt),,$(NOTHING)) $(1)

# $(call compile,WHAT,TARGETS)
comma := ,
compile = @tools/timed "compile $(1)" cmake --build $(BUILD) -j $(JOBS) --target $(2)

help: ## Show this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 10

demo: ## Build library, command and an example, and train on two ranks (10 minutes)
	@tools/setup build demo
	$(call configure)
	$(call compile,the library and the command (6 minutes on 2 cores),argosy argosy_cli)
	@tools/demo $(BUILD)

test: build ## Build everything but benches, and run all tests (30 minutes)
	@tools/timed "tests (11 minutes on 2 cores)" tools/run_tests $(BUILD) -LE soak

soak: build ## Run the long and statistical tests, then those with sanitizers: before a release
	@tools/timed "soak tests (an hour or more on 2 cores)" tools/run_tests $(BUILD) -L soak
	@tools/sanitize

sanitize: ## Run tests with sanitizers: before a release (an hour on 2 cores)
	@tools/setup build tests
	@tools/sanitize

bench: ## Run all benches and renew the tables of docs/
	@tools/setup build python bench
	$(call configure,-DARGOSY_BUILD_PYTHON=ON -DARGOSY_BUILD_BENCH=ON)
	$(call compile,the library and the benches (10 minutes on 2 cores),benches)
	tools/bench $(BUILD)

lint: ## Check format, spelling, layers, headers and forbidden calls (2 minutes)
	@tools/setup build lint
	$(call configure)
	@tools/lint $(BUILD)

tidy: ## Run clang-tidy over all sources
	@tools/setup build python tests bench lint
	tools/tidy

build: ## Build library, command, bindings and tests (PRESET=release|debug|asan|tsan)
	@tools/setup build python tests bench
	$(call configure,-DARGOSY_BUILD_TESTS=ON -DARGOSY_BUILD_PYTHON=ON -DARGOSY_BUILD_BENCH=ON)
	$(call compile,library$(comma) command$(comma) bindings and tests (17 minutes on 2 cores),all)

install: ## Install library, command, bindings and `argosy bench` (PREFIX=/usr/local)
	@tools/setup build python bench
	$(call configure,-DARGOSY_BUILD_PYTHON=ON -DARGOSY_BUILD_BENCH=ON)
	$(call compile,what is installed (7 minutes on 2 cores),argosy_package)
	cmake --install $(BUILD) --prefix $(PREFIX)

setup: ## Install all Debian packages of tools/packages.txt that are missing
	@tools/setup
