# Two commands: `make lab-ci` (500 crash points on each of three storage layers) and `make test` (the lab's own tests).
# Each sets up what is missing by itself, on a bare Debian too; what that is, and where it goes: docs/ci.md
# LAB_SEED, LAB_POINTS, LAB_STORAGE, LAB_WORKERS and LAB_SHARD override the defaults: LAB_SEED=7 make lab-ci

LAB     := .venv/bin/lab
STORAGE := "$${LAB_STORAGE:-ext4,tmpfs,overlay}"
POINTS  := "$${LAB_POINTS:-500}"

.PHONY: lab-ci lab-nightly test lint setup clean

lab-ci: setup
	@$(LAB) run matrix --storage $(STORAGE) --points $(POINTS)

lab-nightly: setup
	@$(LAB) run matrix --storage $(STORAGE) --exhaustive $(if $(LAB_SHARD),--shard $(LAB_SHARD))

test: lint setup
	@.venv/bin/pytest -v --durations=10

lint: .venv/ready
	@.venv/bin/ruff check --quiet
	@.venv/bin/ruff format --check --quiet || { echo "format   not clean: run .venv/bin/ruff format"; exit 1; }
	@.venv/bin/mypy --no-error-summary
	@echo "lint     ruff and mypy: clean"

setup: .venv/ready
	@$(LAB) setup

# Made again only when the pinned versions change.
.venv/ready: pyproject.toml .ci/venv
	@bash .ci/venv

# Only what can be made again: run records (.lab/) are kept, and so are images and engine (`lab gc`, `lab engine stop`).
clean:
	@rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
