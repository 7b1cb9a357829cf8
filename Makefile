# Every target makes what it needs first. PYTHON chooses the interpreter of a new .venv, ARGS goes to pytest.
PYTHON ?= python3
ARGS ?=
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: run dev test test-system test-postgres chaos attack browser corpus conformance wheel docs bench
.PHONY: client-logins bundles
.PHONY: lint types style format clean
.DELETE_ON_ERROR:

# Compiled modules are stored, also where images of containers say otherwise: the tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE

run: .venv/runtime.stamp
	$(BIN)/python manage.py up

# Serves code as it is edited: that of MCP_APPS, and ours.
dev: .venv/dev.stamp
	$(BIN)/python manage.py up --reload

# What this process can test alone: units, and the server inside the test process. In the order of the files,
# so that each process does tests of the database first. `lint` has run the ignored files of the architecture.
test: lint
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not process and not thorough and not chaos" \
	  --hypothesis-profile quick --ignore=tests/browser $(LINTED:%=--ignore=%) $(ARGS)

# Real processes, sockets and clients, the short selection of the chaos suite, and what `make test` tries with few
# or small examples only. A file's tests share servers.
# In the order of the files: by their sizes, a few long tests would come last, beside an idle core. Four processes
# on two cores: tests of conversations wait three quarters of their time.
test-system: .venv/test.stamp
	$(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder -m "(process or thorough or hypothesis) and not chaos" \
	  --ignore=tests/browser $(ARGS)

test-postgres: .venv/test.stamp
	$(BIN)/python -m tests.servers.postgres $(ARGS)

# CHAOS_SEED repeats a run; the seed is in the first lines of every run. Two at a time: most of them wait.
# What takes the whole machine comes after the others. Status 5: ARGS choose nothing of this part.
chaos: .venv/test.stamp
	$(BIN)/python -m pytest -n 2 --dist worksteal tests/chaos -m "not alone" $(ARGS) $(if $(ARGS),|| [ $$? -eq 5 ])
	$(BIN)/python -m pytest tests/chaos -m alone $(ARGS) $(if $(ARGS),|| [ $$? -eq 5 ])

# 100,000 random requests to the authorization server, in five minutes. The seed is printed; SEED takes another.
SEED ?= 1
attack: .venv/test.stamp
	$(BIN)/python -m tests.fuzz.oauth.run --seed $(SEED) $(ARGS)

# PICTURES=<folder> keeps pictures of all pages there, in all looks.
browser: .venv/test.stamp
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder tests/browser \
	  --ignore=tests/browser/corpus $(ARGS)

# Hostile words in every field, read on every page, in all looks and without the skin: many minutes.
# PICTURES=<folder> keeps pictures here, too; ARGS='-m "not every_look"' takes one look only.
corpus: .venv/test.stamp
	$(BIN)/python -m pytest tests/browser/corpus $(ARGS)

# Claude Code, Codex and Gemini CLI log in to a server without internet: 900 MB of npm packages; Linux, as root.
client-logins: .venv/test.stamp
	CLIENT_LOGINS=on $(BIN)/python -m pytest -n 0 tests/interop/test_offline_logins.py $(ARGS)

conformance: .venv/test.stamp
	$(BIN)/python -m tests.conformance.run $(ARGS)

# One script and one style sheet for each kind of page, in mcpsite/bundled. Needs npm, for esbuild.
bundles: .venv/test.stamp
	$(BIN)/python -m tests.browser.bundles

# Built, installed into an empty environment, and added to a foreign project as docs/embedding.md says, line by line.
# DJANGO and PYTHON choose the versions, SERVERS (gunicorn,hypercorn,granian,daphne) adds others to uvicorn.
DJANGO ?= 5.2
SERVERS ?= uvicorn
wheel: .venv/test.stamp
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory bundles; \
	  else rm -rf mcpsite/bundled; echo "Without npm, the pages of this wheel load their scripts one by one."; fi
	rm -rf dist
	$(BIN)/python -m build --wheel --no-isolation --outdir dist .
	$(BIN)/python -m tests.foreign_project.run dist/*.whl --python "$$(command -v $(PYTHON))" --django $(DJANGO) --servers $(SERVERS) $(ARGS)

# The documents as a site, in site/: a page that nothing leads to, and a link or anchor that leads nowhere, is an error.
docs: .venv-docs/docs.stamp
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --quiet --clean --strict
	@echo "Open site/index.html, or with the search: python3 -m http.server --directory site"

bench: .venv/test.stamp
	$(BIN)/python -m benchmarks.run

lint: .venv/test.stamp
	@$(MAKE) --no-print-directory -j 2 types style

types: .venv/test.stamp
	$(BIN)/mypy

# The tests among it look at sizes of files, functions and folders, at prose, and for circles of imports.
LINTED := tests/architecture/test_source.py tests/architecture/test_prose.py
style: .venv/test.stamp
	$(BIN)/ruff check .
	$(BIN)/python -m tests.architecture.subjects
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m pytest -q -p no:cacheprovider $(LINTED) \
	  tests/architecture/test_imports.py::test_no_import_cycles_including_type_hints
	$(BIN)/python manage.py makemigrations --check --dry-run --settings tests.settings

format: .venv/test.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .venv-docs site .bootstrap .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis staticfiles dist

# Where ensurepip is missing (Debian without python3-venv), uv makes the environment; `--target` works even
# where pip must not touch the system's packages.
.venv/made.stamp .venv-docs/made.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed: install it, or name it: make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@$(@D)/bin/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(@D) 2>/dev/null || \
	  { $(PYTHON) -m pip install --quiet --disable-pip-version-check --target .bootstrap uv && \
	    .bootstrap/bin/uv venv --quiet --clear --seed --python "$$(command -v $(PYTHON))" $(@D); } || \
	  { echo "Cannot make $(@D): install python3-venv (or pip) and try again." >&2; exit 1; }
	@touch $@

.venv/runtime.stamp: requirements.txt .venv/made.stamp
	@echo "Installing the pinned requirements into .venv (about half a minute the first time)"
	@$(PIP) -r requirements.txt
	@touch $@

.venv/dev.stamp: requirements-dev.txt .venv/runtime.stamp
	@$(PIP) -r requirements-dev.txt
	@touch $@

.venv/test.stamp: requirements.txt requirements-dev.txt requirements-test.txt .venv/made.stamp
	@echo "Installing the pinned test requirements into .venv"
	@$(PIP) -r requirements-test.txt
	@touch $@ .venv/runtime.stamp

.venv-docs/docs.stamp: docs/requirements.txt .venv-docs/made.stamp
	@echo "Installing the pinned requirements of the documents into .venv-docs"
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -r docs/requirements.txt
	@touch $@
