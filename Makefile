# Everything a developer or operator runs. `make` alone lists it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CLIENTS := .venv-clients
MODEL := .venv-model
BENCH := .venv-bench
OUTSIDE := .venv-outside
STAMPS := .make
BASE ?= HEAD
CORES := $(shell getconf _NPROCESSORS_ONLN)
# Tests wait more than they compute, for models that take their time and for what shall time out: more at once than
# there are cores.
TEST_JOBS ?= $(shell expr $(CORES) + 2)
NODE_TESTS := tests/workers tests/bus tests/journal tests/elsewhere tests/cluster tests/chaos tests/deploy
NODE_JOBS ?= $(TEST_JOBS)

.DEFAULT_GOAL := help
.PHONY: help run cluster setup test test-fast test-chaos test-codex test-model test-outside test-planted fuzz check fmt lint types wire web lock bench bench-server bench-cluster bench-governance bench-redis bench-page bench-compare bench-profile clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

run: $(STAMPS)/serve ## Start the server on http://127.0.0.1:8787 (ARGS="--port 9000" adds flags)
	@exec $(BIN)/antiphon serve $(ARGS)

cluster: $(STAMPS)/cluster ## Start two nodes, Valkey and PostgreSQL on this machine, without containers
	@exec $(BIN)/python -m deploy.cluster $(ARGS)

setup: $(STAMPS)/test $(STAMPS)/clients $(STAMPS)/npm $(STAMPS)/bench ## Install everything development and tests need

test: setup ## Run all tests but the slow suites
	$(BIN)/python -m pytest -n $(TEST_JOBS) --dist worksteal -m "not codex and not fuzz and not model and not planted" tests $(NODE_TESTS:%=--ignore=%)
	$(BIN)/python -m pytest -n $(NODE_JOBS) --dist worksteal $(NODE_TESTS)

test-fast: $(STAMPS)/test ## Run the tests that need neither browser nor SDKs
	$(BIN)/python -m pytest -n $(TEST_JOBS) --dist worksteal -m "not codex and not fuzz and not model and not planted and not browser and not clients and not chaos and not bench" tests

test-chaos: $(STAMPS)/test ## Kill, stop and cut off nodes and servers, fifty rounds of each (CHAOS_ROUNDS=n for others)
	CHAOS_ROUNDS=$${CHAOS_ROUNDS:-50} CHAOS_PAUSE_S=$${CHAOS_PAUSE_S:-10} DRAIN_SOCKETS=$${DRAIN_SOCKETS:-5000} \
		$(BIN)/python -m pytest -n $(NODE_JOBS) --dist worksteal -m chaos tests/chaos

test-codex: setup $(STAMPS)/codex ## Run the Codex CLI against the server
	$(BIN)/python -m pytest -m codex tests/codex

test-model: $(STAMPS)/test $(STAMPS)/clients $(STAMPS)/model ## Run the server in front of a real small model
	$(BIN)/python -m pytest -m model tests/model

test-outside: setup $(STAMPS)/codex $(STAMPS)/model $(STAMPS)/outside ## Run suites that others wrote, and write docs/conformance.md (ARGS="rfc6455": only that one)
	$(BIN)/python -m tests.outside $(ARGS)

test-planted: $(STAMPS)/test ## Plant one fault after another in the server, and see that tests catch each
	$(BIN)/python -m pytest -n $(TEST_JOBS) --dist worksteal -m planted tests/planted

fuzz: $(STAMPS)/test ## Send random requests and frames to a server for a minute (FUZZ_S=n for other times)
	FUZZ_S=$${FUZZ_S:-60} $(BIN)/python -m pytest -n 0 -m fuzz tests/fuzz

check: lint types test-fast ## What to run before a commit

fmt: $(STAMPS)/test ## Format the code
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

lint: $(STAMPS)/test ## Check style, and look for known kinds of security faults
	$(BIN)/ruff format --check . && $(BIN)/ruff check .
	$(BIN)/bandit --quiet --recursive --configfile pyproject.toml server protocol deploy examples

types: $(STAMPS)/test ## Check types
	$(BIN)/mypy

wire: $(STAMPS)/test ## Write protocol/schema, openapi.json and the tables of protocol/PROTOCOL.md anew from the models
	$(BIN)/python -m antiphon_protocol.schema && $(BIN)/python -m antiphon_protocol.tables
	$(BIN)/python -m antiphon.settings.reference && $(BIN)/python -m antiphon.transport.openapi.document

web: $(STAMPS)/npm ## Write the types of client_js anew, and bundle it for the pages, with their libraries
	npm run --silent --prefix client_js wire
	node web/build.mjs

lock: ## Write requirements.lock anew from pyproject.toml
	$(PYTHON) -m venv $(STAMPS)/lock-venv && $(STAMPS)/lock-venv/bin/pip install -q uv
	$(STAMPS)/lock-venv/bin/uv pip compile -q --universal --python-version 3.11 --no-header --no-annotate \
		--no-emit-index-url --no-emit-find-links pyproject.toml --extra test --extra dev -o requirements.lock

bench: bench-server bench-cluster bench-governance bench-page ## Measure everything, and write bench/RESULTS.md (ARGS="--quick": short, and not written)
	$(BENCH)/bin/python bench/results_page.py

bench-server: $(STAMPS)/serve $(STAMPS)/bench ## Measure the server on one machine, beside its peers (ARGS="--list" ...)
	$(BENCH)/bin/python bench/run.py $(ARGS)

bench-cluster: $(STAMPS)/serve $(STAMPS)/bench ## Measure two nodes on Redis and PostgreSQL (ARGS="--list" ...)
	$(BENCH)/bin/python bench/cluster.py $(ARGS)

bench-compare: $(STAMPS)/serve $(STAMPS)/bench ## Measure the working tree beside a revision (BASE=HEAD~1 ARGS="--only turns_1_unstored")
	$(BENCH)/bin/python bench/compare.py $(BASE) $(ARGS)

bench-profile: $(STAMPS)/serve $(STAMPS)/bench ## Show in which stages a measure spends its CPU (ARGS="turns_1_unstored")
	$(BENCH)/bin/python bench/stage_profile.py $(ARGS)

bench-governance: $(STAMPS)/test ## Measure admission, keys, and sockets that never say who they are
	$(BIN)/python -m bench.admission && $(BIN)/python -m bench.identity

bench-redis: $(STAMPS)/cluster ## Measure what nodes cost Redis, and where it bends (ARGS="--quick")
	$(BIN)/python bench/redis_load.py $(ARGS)

bench-page: $(STAMPS)/npm ## Measure a frame of the operators' page with 2,000 live runs
	node bench/ops_page.mjs

clean: ## Remove environments and caches
	rm -rf $(VENV) $(CLIENTS) $(MODEL) $(BENCH) $(OUTSIDE) $(STAMPS) client_js/node_modules client_js/dist client_js/build web/node_modules tests/browser/node_modules tests/clients/node/node_modules tests/codex/node_modules tests/outside/node/node_modules

$(STAMPS)/venv:
	@mkdir -p $(STAMPS)
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(STAMPS)/serve: $(STAMPS)/venv pyproject.toml requirements.lock
	@echo "Installing the server into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements.lock -e . 
	@touch $@

$(STAMPS)/cluster: $(STAMPS)/serve
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements.lock -e '.[cluster]'
	@touch $@

$(STAMPS)/test: $(STAMPS)/serve
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements.lock -e '.[test,dev]'
	@touch $@

$(STAMPS)/clients: tests/clients/requirements.txt tests/clients/requirements.lock
	@mkdir -p $(STAMPS)
	$(PYTHON) -m venv $(CLIENTS)
	@$(CLIENTS)/bin/python -m pip install --quiet --disable-pip-version-check -c tests/clients/requirements.lock -r tests/clients/requirements.txt
	@touch $@

$(STAMPS)/npm: client_js/package-lock.json examples/vscode-like/package-lock.json web/package-lock.json tests/browser/package-lock.json tests/clients/node/package-lock.json
	@mkdir -p $(STAMPS)
	npm ci --silent --no-audit --no-fund --prefix client_js
	npm run --silent --prefix client_js build
	npm ci --silent --no-audit --no-fund --prefix web
	npm ci --silent --no-audit --no-fund --prefix tests/browser
	npm ci --silent --no-audit --no-fund --prefix tests/clients/node
	npm ci --silent --no-audit --no-fund --prefix examples/vscode-like
	@touch $@

$(STAMPS)/codex: tests/codex/package-lock.json
	npm ci --silent --no-audit --no-fund --prefix tests/codex
	@touch $@

$(STAMPS)/model: tests/model/requirements.txt tests/model/requirements.lock
	@mkdir -p $(STAMPS)
	$(PYTHON) -m venv $(MODEL)
	@$(MODEL)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -c tests/model/requirements.lock -r tests/model/requirements.txt
	@touch $@

$(STAMPS)/outside: tests/outside/requirements.txt tests/outside/requirements.lock tests/outside/node/package-lock.json
	@mkdir -p $(STAMPS)
	$(PYTHON) -m venv $(OUTSIDE)
	@$(OUTSIDE)/bin/python -m pip install --quiet --disable-pip-version-check -c tests/outside/requirements.lock -r tests/outside/requirements.txt
	npm ci --silent --no-audit --no-fund --prefix tests/outside/node
	@touch $@

$(STAMPS)/bench: bench/requirements.txt
	@mkdir -p $(STAMPS)
	$(PYTHON) -m venv $(BENCH)
	@$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check -r bench/requirements.txt
	@touch $@
