# Everything a developer or a CI machine runs. `make help` lists the targets.
# A machine needs Python 3.11 and make (and Java 17 and Node for the parts that use them);
# the rest is installed into .venv from the hash-pinned lock files in requirements/.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
# uv comes from PATH when it is there, else from a small environment of its own.
UV := $(shell command -v uv || echo .uv/bin/uv)
WORKERS ?= 4
SHOTS ?= ui-shots
UI := src/lakebed/server/ui/app
SEEDS ?= 10000
SECONDS ?= 300
PARALLEL := -n $(WORKERS) --dist loadgroup --no-loadscope-reorder
# The tests of single packages, and what all drivers must do, in memory.
FAST := $(addprefix tests/,auth base block clients/cli clients/http engine formats httpd kv lake reclaim server wire) \
	$(wildcard tests/test_*.py) $(patsubst %,tests/clients/library/test_%.py,doctests embedded lake loading sharing) \
	$(patsubst %,tests/conformance/test_%.py,block_memory kv_memory)

# Tools of Go, which no package brings.
HELM := .envs/deploy/bin/helm
HELM_VERSION := v3.16.4
COMPOSE_SPEC := .envs/deploy/bin/compose-spec
COMPOSE_SPEC_VERSION := v2.16.2
MC := .envs/clients/bin/mc
MC_VERSION := v0.0.0-20250313080218-cf909e1063a9
# Of Debian 12.
RESTIC := .envs/clients/bin/restic
RESTIC_VERSION := 0.14.0-1+b5

export PATH := $(CURDIR)/$(BIN):$(PATH)
# Tests start hundreds of processes; each would compile all that it imports, again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install install-fast quickstart serve format lint typecheck typecheck-ui layers messages check \
	tests test-fast test test-all simulate fuzz bench bench-page bench-compare docs docs-reference \
	docs-console ui-shots ui-vendor dist deploy-lint proto lock clean

help: ## list the targets
	@awk '/^##@ / {print "\n" substr($$0, 5)} /^[a-z-]+:.*## / {split($$0, part, ":.*## "); printf "  %-15s %s\n", part[1], part[2]}' \
		$(firstword $(MAKEFILE_LIST))

##@ Every day

install: $(VENV)/.installed node_modules/.installed ## create .venv with the locked dependencies and the test servers

quickstart: .quickstart/.installed ## start a server with everything in ./data, ready to try
	@.quickstart/bin/lakebed quickstart $(ARGS)

serve: install ## a server in one process from .venv: restarts on change, shows debug lines and spans of requests
	@$(BIN)/python -m lakebed.testing.serve $(ARGS)

format: install ## rewrite the sources in the project's format
	ruff format .
	ruff check --fix --quiet .

lint: install
	ruff format --check .
	ruff check .

typecheck: install
	mypy

typecheck-ui: install
	node_modules/.bin/tsc -p jsconfig.json

layers: install
	lint-imports --no-cache

messages:
	$(PYTHON) .githooks/commit_messages.py

check: lint typecheck typecheck-ui layers messages ## format, lint rules, types (mypy, tsc), layers and commit messages

test-fast: install-fast ## the tests of all day, without Node, Java and PostgreSQL
	LAKEBED_TEST_FAST=1 HYPOTHESIS_PROFILE=fast pytest -n 2 --dist loadgroup \
		--no-loadscope-reorder -q -m "not slow and not extended and not wsgi" $(FAST)

tests: install
	pytest $(PARALLEL) --durations 10

# The checks run beside the tests, and say what they found when both are done.
test: install ## what CI runs: every check, and every test but those of test-all
	@$(MAKE) --no-print-directory check > .check.log 2>&1 & checks=$$!; \
	$(MAKE) --no-print-directory tests; tests=$$?; \
	wait $$checks; checks=$$?; cat .check.log; rm .check.log; \
	[ $$tests = 0 ] && [ $$checks = 0 ]

##@ Before a release

test-all: install ## every test there is (PARTS="databases tables" for some); prints minutes, and what was not run
	$(BIN)/python -m tests.everything $(PARTS)

simulate: install ## run SEEDS simulated histories in all, of every scenario or of the modules in SCENARIOS
	$(BIN)/python -m lakebed.testing.simulation.explore --seeds $(SEEDS) $(or $(SCENARIOS),$(ALL_SCENARIOS))

ALL_SCENARIOS := $(addprefix tests.simulation.,whole engine repositories scenarios fenced copying objects repeats purges \
	multiparts pulls hooks imports gc_histories gc_online retention lifecycle) tests.auth.scenarios

fuzz: install ## feed every parser that strangers reach, and a running server, with new inputs for SECONDS in all
	$(BIN)/python -m tests.fuzz.run --seconds $(SECONDS)

deploy-lint: $(HELM) $(COMPOSE_SPEC) ## look for mistakes in deploy/: the container, the chart, the unit, the YAML files
	.envs/deploy/bin/hadolint deploy/docker/Dockerfile
	.envs/deploy/bin/yamllint --strict -d '{extends: default, rules: {braces: disable, brackets: disable, comments-indentation: disable, document-start: disable, line-length: {max: 140}}}' \
		deploy/compose deploy/systemd/lakebed.yaml deploy/helm/lakebed/Chart.yaml deploy/helm/lakebed/values.yaml
	@# What Docker Compose reads its files with; it takes no values for what they leave to the user.
	for file in deploy/compose/*.yaml; do $(COMPOSE_SPEC) --no-interpolation $$file > .envs/deploy/compose.yaml || exit 1; done
	$(HELM) lint --strict deploy/helm/lakebed
	$(HELM) template lake deploy/helm/lakebed --set ingress.enabled=true --set ingress.tlsSecret=tls \
		--set config.listen.trusted_proxies={10.0.0.1} --set networkPolicy.enabled=true --set autoscaling.enabled=true \
		--set serviceMonitor.enabled=true --output-dir .envs/deploy/rendered
	.envs/deploy/bin/yamllint -d '{extends: relaxed, rules: {line-length: disable, trailing-spaces: disable}}' .envs/deploy/rendered
	@# The unit names a program that is not here; systemd says that and nothing else, if all is well.
	@! { systemd-analyze verify deploy/systemd/lakebed.service 2>&1 | grep -v 'is not executable: No such file'; }

dist: install ## build the wheel and the source package into dist/
	$(BIN)/python -m hatchling build

##@ Benchmarks

BENCH ?= kv committed engine api api_listings large memory garbage importing migrating commands
bench: install ## ratios to a floor of the same run, of all or of BENCH="kv engine"; fails where a bar is missed
	for name in $(BENCH); do $(BIN)/python -m benchmarks.$$name $(ARGS) || failed=1; done; [ -z "$$failed" ]

bench-page: install ## measure rates and large objects into docs/performance.md, on a quiet machine
	$(BIN)/python -m benchmarks.performance_page $(ARGS)

BASE ?= HEAD
bench-compare: install ## how many times as fast as the commit BASE (ARGS="--postgresql --s3": there); fails where a bar is missed
	$(BIN)/python -m benchmarks.compare --base $(BASE) $(ARGS)

##@ Documentation and the web UI

docs: .envs/docs/.installed ## build the documentation into .site; fails on a broken link
	NO_MKDOCS_2_WARNING=1 .envs/docs/bin/mkdocs build --strict --clean

docs-reference: install ## write the pages of docs/reference from the code
	$(BIN)/python -m tests.docs.reference

PAGES ?= README.md $(wildcard docs/*.md)
docs-console: install ## write what commands print now into the console blocks of PAGES
	$(BIN)/python -m tests.docs.rewrite $(PAGES)

ui-shots: install ## screenshots of all pages into SHOTS: three widths, light and dark
	$(BIN)/python -m tests.ui.shots $(SHOTS)

# The files are committed, and their checksums with them: servers and users need no npm.
ui-vendor: install ## take Preact, htm and Swagger UI over from npm, into the web UI
	cp node_modules/htm/preact/standalone.module.js $(UI)/vendor/preact-htm.js
	cp node_modules/swagger-ui-dist/swagger-ui-bundle.js.LICENSE.txt $(UI)/vendor
	for name in swagger-ui-bundle.js swagger-ui.css; do \
		gzip --best --no-name < node_modules/swagger-ui-dist/$$name > $(UI)/vendor/$$name.gz || exit 1; done
	cd $(UI)/vendor && sha256sum preact-htm.js swagger-ui-bundle.js.gz swagger-ui.css.gz > SHA256SUMS

##@ Files that are made

# By the oldest compiler, because its code works with every newer library, and not the other way round.
proto: .envs/lowest/.installed ## generate the protobuf code from the .proto files
	.envs/lowest/bin/python -m grpc_tools.protoc --proto_path=src --python_out=src --pyi_out=src \
		$(shell find src -name '*.proto')

# What servers of test-fast and of the oldest libraries have installed, and containers.
DRIVERS := $(addprefix --extra ,azure cosmos dynamodb gcs mysql otel postgres rocksdb s3 server testing valkey)
CONTAINER := $(addprefix --extra ,azure dynamodb gcs mysql otel postgres s3 server valkey)
LOCK := $(UV) pip compile --quiet --generate-hashes --no-emit-index-url --python-version 3.11 \
	--custom-compile-command "make lock"
NEWEST := $(if $(UPGRADE),--upgrade)
lock: | $(filter .uv/bin/uv,$(UV)) ## resolve the lock files again (UPGRADE=1: to the newest versions)
	for name in uv deploy clients airflow docs; do \
		$(LOCK) $(NEWEST) --output-file requirements/$$name.txt requirements/$$name.in || exit 1; done
	$(LOCK) $(NEWEST) --all-extras --group dev --output-file requirements/dev.txt pyproject.toml
	$(LOCK) $(NEWEST) --constraint requirements/dev.txt $(DRIVERS) --group fast \
		--output-file requirements/fast.txt pyproject.toml
	$(LOCK) $(NEWEST) --extra server --output-file requirements/run.txt pyproject.toml
	$(LOCK) $(NEWEST) --constraint requirements/run.txt --output-file requirements/client.txt pyproject.toml
	$(LOCK) $(NEWEST) --constraint requirements/dev.txt $(CONTAINER) \
		--output-file requirements/container.txt pyproject.toml
	$(LOCK) $(NEWEST) --constraint requirements/dev.txt --output-file requirements/build.txt requirements/build.in
	$(LOCK) $(NEWEST) --output-file requirements/tables.txt requirements/tables.in pyproject.toml
	$(LOCK) $(NEWEST) --constraint requirements/dev.txt --extra server \
		--output-file requirements/wsgi.txt requirements/wsgi.in pyproject.toml
	$(LOCK) --resolution lowest-direct $(DRIVERS) --group fast \
		--output-file requirements/lowest.txt pyproject.toml

clean: ## remove what the targets made
	rm -rf .bench-* .check.log .databases $(SHOTS) $(VENV) .envs .site .quickstart .uv node_modules .hypothesis .pytest_cache .mypy_cache .ruff_cache

# Environments.

.uv/bin/uv: requirements/uv.txt
	$(PYTHON) -m venv .uv
	.uv/bin/python -m pip install --quiet --require-hashes -r requirements/uv.txt
	touch $@

# $(1): the environment; $(2): its lock file; $(3): more options
define sync
	$(UV) venv --quiet --allow-existing --no-python-downloads --python $(PYTHON) $(1)
	$(UV) pip sync --quiet $(3) --python $(1)/bin/python --require-hashes requirements/$(2).txt
endef

# $(1): the environment; $(2): more options
define install-lakebed
	$(UV) pip install --quiet --python $(1)/bin/python --no-deps $(2) --editable .
endef

$(VENV)/.installed: requirements/dev.txt pyproject.toml | $(filter .uv/bin/uv,$(UV))
	$(call sync,$(VENV),dev,--compile-bytecode)
	$(call install-lakebed,$(VENV),--no-build-isolation)
	touch $@

# Enough for `make test-fast`: no Spark, no test servers, no Node. Where all is installed, it stays.
install-fast: $(if $(wildcard $(VENV)/.installed),$(VENV)/.installed,$(VENV)/.fast)

$(VENV)/.fast: requirements/fast.txt pyproject.toml | $(filter .uv/bin/uv,$(UV))
	$(call sync,$(VENV),fast,--compile-bytecode)
	$(call install-lakebed,$(VENV),--no-build-isolation)
	touch $@

# Only what a server needs to run: installed in seconds, without the test servers.
.quickstart/.installed: requirements/run.txt pyproject.toml | $(filter .uv/bin/uv,$(UV))
	$(call sync,.quickstart,run)
	$(call install-lakebed,.quickstart)
	touch $@

# Tools, and libraries in other versions than ours, each in an environment from its own lock file: Airflow; Go; an
# earlier Spark, for which there are plug-ins of Delta Lake and Iceberg; the oldest versions of what we need.
.envs/%/.installed: requirements/%.txt | $(filter .uv/bin/uv,$(UV))
	$(call sync,.envs/$*,$*,--compile-bytecode)
	$(if $(filter tables lowest wsgi,$*),$(call install-lakebed,.envs/$*))
	touch $@

# A program goes into the environment that has Go.
GO_INSTALL = GOBIN=$(CURDIR)/$(@D) PATH=$(CURDIR)/$(@D):$$PATH go install

$(HELM): | .envs/deploy/.installed
	$(GO_INSTALL) helm.sh/helm/v3/cmd/helm@$(HELM_VERSION)

$(COMPOSE_SPEC): | .envs/deploy/.installed
	$(GO_INSTALL) github.com/compose-spec/compose-go/v2/cmd@$(COMPOSE_SPEC_VERSION)
	mv .envs/deploy/bin/cmd $@

$(MC): | .envs/clients/.installed
	$(GO_INSTALL) github.com/minio/mc@$(MC_VERSION)

# apt verifies the package by the signatures of Debian.
$(RESTIC): | .envs/clients/.installed
	cd .envs/clients && apt-get -qq download restic=$(RESTIC_VERSION) && dpkg-deb -x restic_*.deb debian
	mv .envs/clients/debian/usr/bin/restic $@

# Azurite and DynamoDB, servers, and Chromium, a browser, that tests use. No scripts of packages are run.
node_modules/.installed: package.json package-lock.json .npmrc
	@command -v npm >/dev/null || { echo "the test servers need Node: there is no program npm" >&2; exit 1; }
	npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	touch $@
