# `make` alone lists the targets. scripts/ holds what they do; nothing here needs to be remembered.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup run test lint web web-test web-walks web-bench planted fmt bench clean-pg

export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin

# setup has fetched every crate, so from there on a request to the network is a mistake and fails.
OFFLINE := CARGO_NET_OFFLINE=true
PG := scripts/with-postgres

# The check of the served API against its description: a command, or empty for none.
API_CHECK := $(PG) scripts/schemathesis

# The visits of the web app of the server that the tests have built.
WALKS := $(PG) npm --prefix web run --silent walks --

# Further arguments: make test ARGS=approval (a filter of tests), make run ARGS=--help, make bench ARGS=--help,
# make planted ARGS=NAME
ARGS ?=

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS=$$'\t' read -r name what; do \
	    printf '  make %-10s %s\n' "$$name" "$$what"; done

setup: ## Install what is missing, and say what was done
	@scripts/setup

run: ## Build and start a demo server; it prints where it listens
	@scripts/setup --build
	cargo run --locked --release -p sederunt-cli --bin sederunt -- serve --demo $(ARGS)

# Libraries last: the binary has the name of a library, and its page would replace that of the library.
lint: setup ## Check the format, clippy, rustdoc and the planted bugs; a warning is an error
	scripts/planted --check
	$(OFFLINE) cargo fmt --all --check
	scripts/unused-dependencies
	$(OFFLINE) scripts/forbidden-dependencies
	$(OFFLINE) cargo clippy --locked --workspace --all-targets -- -D warnings
	$(OFFLINE) RUSTDOCFLAGS='-D warnings' cargo doc --locked --workspace --no-deps --bins
	$(OFFLINE) RUSTDOCFLAGS='-D warnings' cargo doc --locked --workspace --no-deps --lib

test: lint web-test ## Everything that must pass before a commit: setup, lint and all tests on both databases
	$(OFFLINE) $(PG) cargo nextest run --locked --workspace $(ARGS)
	$(OFFLINE) $(PG) cargo test --locked --workspace --doc
	$(API_CHECK)
	$(WALKS)

# Asks no registry: what the tests install comes from node_modules, which setup has filled.
web-test: setup ## Check web/: format, lints, types, tests, the package as others install it, and the built app
	npm_config_offline=true npm --prefix web run --silent check
	@git diff --quiet -- web/app/dist ':(exclude)*.br' ':(exclude)*.gz' || \
	    { echo 'web/app/dist is not what its sources build: run make web, and commit it' >&2; exit 1; }

# The binary carries what this builds, so it comes before a build of the binary.
web: setup ## Build the web app, with the compressed copies and the hash that the binary carries
	npm_config_offline=true npm --prefix web run --silent build:app

web-walks: setup ## Visit the web app of the built server in Chromium, on both databases
	$(OFFLINE) cargo build --locked -p sederunt-cli
	$(WALKS) $(ARGS)

# The binary as it is shipped: a debug build answers too late for the bars.
web-bench: setup ## Measure the web app against its bars, and see that planted slow variants break them; ARGS=--short
	$(OFFLINE) cargo build --locked --profile dist -p sederunt-cli
	SEDERUNT_BIN=$(CURDIR)/target/dist/sederunt npm --prefix web run --silent bench -- $(or $(ARGS),--plants)

# Every bug is a build. ARGS="--together NAME NAME" for some of them; see scripts/planted --help
planted: ## See that the tests catch the bugs of tests/planted
	@scripts/setup
	$(OFFLINE) scripts/planted $(ARGS)

# The binary as it is shipped, built before the cluster starts, so that nothing but the benchmark runs beside it.
bench: ## Measure Sederunt beside its peers, on durable settings
	@scripts/setup --bench
	$(OFFLINE) cargo build --locked --profile dist -p sederunt-cli -p sederunt-bench
	$(OFFLINE) $(PG) --durable cargo run --locked --profile dist -p sederunt-bench -- $(ARGS)

fmt: ## Format the code
	cargo fmt --all
	[ ! -d web/node_modules ] || npm --prefix web run --silent format

clean-pg: ## Remove the database clusters that killed runs have left behind
	@$(PG) --clean
