# Everything starts from a plain clone: each target installs what is missing, builds, then does its job.
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local

SECONDS_EACH ?= 60

.PHONY: all setup run test test-large test-faults test-kills bench asan tsan fuzz format install clean
all: build-release

setup:
	@scripts/setup.sh

build-%: setup
	@cmake --preset $* >/dev/null
	@cmake --build --preset $* -j $(JOBS)

# Only what the main examples need.
run: setup
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS) --target taxi breast_cancer
	@build/release/examples/taxi
	@build/release/examples/breast_cancer --port 0

test: build-release
	@ctest --preset release -j $(JOBS) || { scripts/failed_tests.sh build/release; exit 1; }

# 10 GB of rows through each operation that needs all of them, with a memory budget of 500 MB, and through a stream; takes 25 GB of disk, and minutes.
LARGE_ROWS ?= 160000000
test-large: setup
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS) --target test_program_wide_memory
	@for operation in sort random_shuffle stream groupby join; do \
	  echo "$$operation of $(LARGE_ROWS) rows of 64 bytes:"; \
	  build/release/tests/programs/wide_memory $$operation $(LARGE_ROWS) 500000000 650000000 || exit 1; done

# Kills, crashes and cuts of hosts in the midst of training: minutes.
FAULTS ?= 100
test-faults: setup
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS) --target system_test test_program_torch_hosts
	@MANTA_TEST_FAULTS=$(FAULTS) build/release/tests/system_test --gtest_filter='HostsTest.RandomFaults*'

# Kills of workers, data readers and drivers of the example programs: minutes.
KILLS ?= 200
test-kills: setup
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS) --target system_test example_programs
	@MANTA_TEST_KILLS=$(KILLS) build/release/tests/system_test --gtest_filter='ExampleKills.*'

bench:
	@scripts/setup.sh bench
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS) --target benches
	@bench/setup_ray.sh >/dev/null
	@python3 bench/run.py --build-dir build/release

asan: build-asan
	@ctest --preset asan -j $(JOBS) || { scripts/failed_tests.sh build/asan; exit 1; }

# TSan of g++ 12 does not start where the kernel randomises more than 28 bits of addresses, so switch that off if allowed.
tsan: build-tsan
	@$$(setarch -R true 2>/dev/null && echo setarch -R) ctest --preset tsan -j $(JOBS) || \
	  { scripts/failed_tests.sh build/tsan; exit 1; }

# Every target for SECONDS_EACH, JOBS at a time. What they find stays in build/fuzz/found.
fuzz:
	@scripts/setup.sh fuzz
	@cmake --preset fuzz >/dev/null
	@cmake --build --preset fuzz -j $(JOBS)
	@scripts/fuzz.sh build/fuzz $(SECONDS_EACH) $(JOBS)

format: setup
	@scripts/format.sh

# All layers: those on top need the others.
install: setup
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS) --target manta_torch manta_xgboost manta_serve manta_cli
	@cmake --install build/release --prefix $(PREFIX)

clean:
	rm -rf build
