# Two commands: `make lab-ci` (conformance cells, then 500 crash points, on each of three storage layers) and `make test`
# (the lab's own tests).
# Each sets up what is missing by itself, on a bare Debian too; what that is, and where it goes: docs/ci.md
# A measurement beside them, and no gate: `make lab-fuzz` (three clients against a daemon, LAB_MINUTES of it).
# LAB_SEED, LAB_POINTS, LAB_STORAGE, LAB_WORKERS, LAB_MINUTES and LAB_SHARD override the defaults: LAB_SEED=7 make lab-ci

LAB     := .venv/bin/lab
STORAGE := "$${LAB_STORAGE:-ext4,tmpfs,overlay}"
POINTS  := "$${LAB_POINTS:-500}"
MINUTES := "$${LAB_MINUTES:-10}"

.PHONY: lab-ci lab-nightly lab-fuzz test lint floors setup clean

# Both campaigns run, whatever the first says; the matrix last, so that `latest` is its record.
lab-ci: setup
	@red=0; $(LAB) run cells --storage $(STORAGE) || red=$$?; \
	$(LAB) run matrix --storage $(STORAGE) --points $(POINTS) || red=$$?; exit $$red

# Only the matrix is split: the first shard runs all of the cells, and the fuzz campaign.
lab-nightly: setup
	@red=0; case "$(LAB_SHARD)" in ''|1/*) \
	$(LAB) run cells --storage $(STORAGE) --nightly || red=$$?; \
	$(LAB) run fuzz --storage $(STORAGE) --minutes $(MINUTES) || red=$$?;; esac; \
	$(LAB) run matrix --storage $(STORAGE) --exhaustive $(if $(LAB_SHARD),--shard $(LAB_SHARD)) || red=$$?; exit $$red

lab-fuzz: setup
	@$(LAB) run fuzz --storage $(STORAGE) --minutes $(MINUTES)

test: lint setup
	@.venv/bin/pytest -v --durations=10

lint: .venv/ready floors
	@.venv/bin/ruff check --quiet
	@.venv/bin/ruff format --check --quiet || { echo "format   not clean: run .venv/bin/ruff format"; exit 1; }
	@.venv/bin/mypy --no-error-summary
	@echo "lint     ruff and mypy: clean"

# That a folder imports only those below it.
floors: .venv/ready
	@.venv/bin/lint-imports --no-logo >/dev/null || .venv/bin/lint-imports

setup: .venv/ready
	@.ci/engine start
	@.ci/base
	@$(LAB) setup

# Made again only when a library or its pinned version changes.
.venv/ready: pyproject.toml requirements.lock .ci/venv
	@bash .ci/venv

# Only what can be made again: run records (.lab/) are kept, and so are images and engine (`lab gc`, `.ci/engine stop`).
clean:
	@rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
