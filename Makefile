# The only list of commands. CI calls `make test`.

.DEFAULT_GOAL := help
.PHONY: help setup demo check format test test-fast test-rust test-unit test-netns test-browser test-streams test-timing short-runs reproductions fuzz soak-controller lock schemas clean

export PYTHONPATH := src
export UV_PYTHON_DOWNLOADS := never
export HAWSER_EXAMPLES ?= repeat
PY := .venv/bin/python
BIN := .venv/bin

help: ## show this list
	@grep -hE '^[a-z%-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

setup: ## install what building and testing need
	@tools/setup --dev

demo: ## run the quickstart experiment
	./hawser run workflows/quickstart.yaml

check: setup ## format, lint, types, layers, sizes, spelling, abbreviations
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	$(BIN)/ruff format --check src tests benches tools
	$(BIN)/ruff check src tests benches tools
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PY) tools/check_rust_layers.py
	$(PY) tools/check_circles.py
	$(PY) tools/check_pure_rooms.py
	$(PY) tools/check_text.py
	$(PY) tools/check_abbreviations.py
	$(PY) tools/check_commits.py
	git ls-files -- ':!*.lock' ':!fuzz/corpus' ':!*.png' ':!tests/unit/spec/malformed' | xargs $(BIN)/codespell
	$(PY) tools/file_sizes.py

format: setup ## format everything
	cargo fmt --all
	$(BIN)/ruff format src tests benches tools
	$(BIN)/ruff check --fix-only src tests benches tools

PARTS := check test-rust test-unit test-netns test-browser

test: setup ## check, then every test; at the end, what took how long and what was skipped
	@$(PY) tools/parts.py $(PARTS)

test-fast: setup ## check, Rust and unit tests in two minutes: fewer random examples, no simulated table
	@PROPTEST_CASES=32 RUST_TESTS="--skip efficiency_is_what_the_table_says" HAWSER_EXAMPLES=few \
	  $(PY) tools/parts.py check test-rust test-unit

test-rust: setup
	PROPTEST_RNG_SEED=1 cargo test --workspace --locked -- $(RUST_TESTS)

test-unit: setup
	$(BIN)/pytest tests/unit -n 2 --dist worksteal

# Six at a time, more than there are processors here: most of them wait most of the time.
test-netns: setup
	$(BIN)/pytest tests/netns -n 6 --dist worksteal

test-browser: setup
	$(BIN)/pytest tests/browser

test-streams: setup ## Kafka and Spark killed in mid-stream: fetches both (500 MB) at first
	tools/setup --extra spark
	$(BIN)/pytest tests/streams

test-timing: setup ## tests of speed and punctuality, one by one: skipped where the machine is disturbed
	$(BIN)/pytest tests/timing

soak-controller: setup ## kill a controller at 50 moments, and take its database away for a minute
	HAWSER_KILLS=50 $(PY) -m pytest tests/netns/controller/test_change.py -k killed_at_any_moment -o log_cli=true -o log_cli_level=INFO
	HAWSER_AWAY=60 $(PY) -m pytest tests/netns/controller/test_several.py -o log_cli=true -o log_cli_level=INFO

bench-%: setup ## run one same-run comparison, such as bench-tunnel
	$(PY) benches/$*.py

short-runs: setup ## run the short form of each workflow that was not run yet, and keep its results: hours
	$(PY) tools/short_runs.py $(RUNS)

reproductions: setup ## write docs/reproductions.md from the results in docs/runs
	./hawser reproductions docs/runs -o docs/reproductions.md

TARGETS := $(patsubst fuzz/fuzz_targets/%.rs,%,$(wildcard fuzz/fuzz_targets/*.rs))
SECONDS ?= 60

fuzz: ## run every fuzz target for SECONDS (60): make fuzz TARGETS=tunnel SECONDS=3600
	@cargo +nightly fuzz --version >/dev/null 2>&1 || { \
	  echo "fuzzing needs nightly Rust and cargo-fuzz: rustup toolchain install nightly; cargo install --locked cargo-fuzz" >&2; exit 3; }
	@for name in $(TARGETS); do \
	  echo "$$name: $(SECONDS) s" && mkdir -p fuzz/target/corpus/$$name fuzz/corpus/$$name && \
	  cargo +nightly fuzz run $$name fuzz/target/corpus/$$name fuzz/corpus/$$name -- -max_total_time=$(SECONDS) || exit 1; \
	done

lock: setup ## pin the Python packages and the jars of Kafka anew
	$(PY) -m pip install --quiet uv
	for name in requirements requirements-query requirements-agent requirements-controller requirements-ids requirements-openflow requirements-png requirements-search requirements-streams requirements-spark requirements-dev; do \
	  $(PY) -m uv pip compile --quiet --generate-hashes --python-version 3.11 --no-emit-index-url --no-header $$name.in -o $$name.lock; \
	done
	$(PY) tools/lock_jars.py

schemas: setup ## write the JSON Schemas anew
	for name in gateway-config gateway-status gateway-counters gateway-train gateway-train-request wan-config wan-status wan-counters wan-queues \
	    load-config load-status load-result function-config function-status function-counters \
	    function-trace function-trace-request classifier-config classifier-counters firewall-rules srv6-proxy-config srv6-proxy-counters \
	    ipsec-config ipsec-counters function-sensor ids-status ids-blocks ids-verdict; do \
	  target/release/hawserd schema $$name > schemas/$$name.schema.json; \
	done
	./hawser schema > schemas/workflow.schema.json
	./hawser schema report > schemas/report.schema.json
	$(PY) -m hawser.openflow --schema > schemas/openflow-config.schema.json

clean: ## remove what was built and measured here
	rm -rf target fuzz/target .venv runs
