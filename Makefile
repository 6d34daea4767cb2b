# Everything happens in .venv, which the first target that needs it sets up: pinned packages, then this project.
# All paths are relative, so the project's folder may have any name.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
LOG := $(VENV)/setup.log
KAFKA_TESTS := tests/connectors/kafka tests/system/test_kafka.py tests/system/test_kafka_broker.py \
  tests/system/test_connect_kafka.py tests/cli/test_kafka_io_send.py tests/cli/test_kafka_io_receive.py \
  tests/cli/test_kafka_topic.py tests/system/chaos/test_kafka_chaos.py tests/examples/test_extensions.py

.PHONY: help demo test lint docs chaos bench lock clean
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-6s %s\n", $$1, $$2 }' Makefile

demo: $(READY) ## Run the word count on a text and check every count (KAFKA=1: from topic to topic).
	@$(BIN)/python examples/word_count$(if $(KAFKA),_kafka)/demo.py

test: lint docs ## Run the linters, build the documentation, then run all tests.
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder $(addprefix --ignore=,$(KAFKA_TESTS))
	@# In processes of their own: Kafka's clients keep threads and files that tests of limits would count.
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder $(KAFKA_TESTS)

lint: $(READY) ## Check style, formatting, types, and the packages for known vulnerabilities.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@$(BIN)/python tools/audit.py requirements.lock $(VENV)/audited

docs: $(READY) ## Build the documentation as a site in build/site.
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

chaos: $(READY) ## Inject faults into a running application (SEED=... MINUTES=... KAFKA=1 or 0).
	@$(BIN)/python -m tests.system.chaos.run $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES)) \
	  $(if $(KAFKA),$(if $(filter 0,$(KAFKA)),--no-kafka,--kafka))

bench: $(READY) ## Run the benchmarks (QUICK=1: ten minutes; ONLY="throughput latency": these parts).
	@$(BIN)/python benchmarks/run.py $(if $(QUICK),--quick) $(addprefix --only ,$(ONLY))

lock: ## Pin the newest versions that pyproject.toml allows in requirements.lock.
	@$(call check_python)
	rm -rf build/lock
	"$(PYTHON)" -m venv build/lock
	build/lock/bin/python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb")); \
	  print(*p["project"]["dependencies"], *p["dependency-groups"]["dev"], sep="\n")' > build/lock/wanted.txt
	build/lock/bin/python -m pip install --quiet --disable-pip-version-check -r build/lock/wanted.txt
	{ echo "# All packages, pinned; written by \`make lock\`."; \
	  build/lock/bin/python -m pip freeze --disable-pip-version-check; } > build/lock/requirements.lock
	mv build/lock/requirements.lock requirements.lock
	rm -rf build/lock

clean: ## Remove .venv and everything else that was made.
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): requirements.lock pyproject.toml
	@$(call check_python)
	@if ! $(BIN)/python -c '$(NEW_ENOUGH)' 2>/dev/null; then \
	  echo "Making a virtual environment in $(VENV) ..."; \
	  "$(PYTHON)" -m venv --clear $(VENV) || { \
	    echo "This Python cannot make virtual environments; on Debian and Ubuntu: apt install python3-venv"; \
	    rm -rf $(VENV); exit 1; }; \
	fi
	@echo "Installing the packages of requirements.lock (the first time this takes a few minutes) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock > $(LOG) 2>&1 || $(setup_failed)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . >> $(LOG) 2>&1 || $(setup_failed)
	@touch $(READY)

NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))

setup_failed = { tail -n 30 $(LOG); echo "The installation failed; all of its output is in $(LOG)."; exit 1; }

define check_python
command -v "$(PYTHON)" > /dev/null || { \
  echo "There is no $(PYTHON): install Python 3.11 or newer, or name it with make PYTHON=..."; exit 1; }; \
"$(PYTHON)" -c '$(NEW_ENOUGH)' || { \
  echo "Python 3.11 or newer is needed; $(PYTHON) is $$("$(PYTHON)" -V 2>&1). Name another with make PYTHON=..."; exit 1; }
endef
