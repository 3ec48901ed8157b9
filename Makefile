# Every target works in a fresh clone; `make help` lists them.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VENV := .venv/bin
# Kinds of test to run: make test KIND="unit spark"
KIND ?= unit spark dags e2e faults
# One folder of tests instead: make test DIR=tests/unit/solvers/scale
DIR ?=
# Benchmarks to run: make bench BENCH=quick
BENCH ?=

export PYTHON

.PHONY: help setup run demo demo-busy demo-joint demo-routes demo-scale demo-kafka demo-kafka-java demo-flink test test-engines kafka-jars kafka-assignor flink-jars lint bench bench-rebalance \
	bench-rebalance-full bench-icde17 bench-collocation bench-routing bench-real-jobs bench-scaling \
	bench-weights bench-review-page clean lock

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Install everything that is needed: .venv as locked, Java if missing, Delta's jars
	@tools/setup.sh

run: setup ## Start the whole loop on this machine; Ctrl-C stops it
	@$(VENV)/python -m embedded.demo --stay

demo: setup ## Start the whole loop, make and follow one plan, report, and stop
	@$(VENV)/python -m embedded.demo

demo-busy: setup ## make demo beside two processes that keep processors busy
	@$(VENV)/python -m embedded.demo --spin 2

demo-joint: setup ## make demo with plans that collocate key groups that exchange records
	@$(VENV)/python -m embedded.demo --objective joint

demo-scale: setup ## Double the reference job's load and halve it again: a node is added, drained and removed
	@$(VENV)/python -m embedded.demo_scale

demo-routes: setup ## make demo-joint with plans that also route single keys
	@$(VENV)/python -m embedded.demo --objective routes

demo-kafka: kafka-jars ## Three Kafka consumers under range, sticky and a plan, on a real broker (needs network once)
	@$(VENV)/python -m embedded.demo_kafka

demo-kafka-java: kafka-jars kafka-assignor ## make demo-kafka with Java consumers
	@$(VENV)/python -m embedded.demo_kafka --client java

demo-flink: flink-jars ## A Flink job with a backlog is rescaled by a plan, and back, on a real cluster
	@$(VENV)/python -m embedded.demo_flink

test: setup ## Run every kind of test (KIND="unit spark" for some, DIR=tests/unit/tools for one folder)
	@$(VENV)/python -m tools.run_tests $(or $(DIR),$(KIND))

test-engines: kafka-jars kafka-assignor flink-jars ## Run the tests of other engines on real servers (needs network once)
	@$(VENV)/python -m tools.run_tests tests/engines

kafka-assignor: setup ## Build the assignor of Java consumers, offline after the first time
	@$(VENV)/python -m tools.maven_build engines/kafka-assignor

kafka-jars: setup ## Fetch the jars of a Kafka broker, once
	@$(VENV)/python -m tools.jars tools/kafka-jars.lock .ballast/kafka-jars

flink-jars: setup ## Fetch the jars of a Flink cluster, once
	@$(VENV)/python -m tools.flink_jars tools/flink.lock .ballast/flink-jars

lint: setup ## Check style, types, import rules and the compose file
	@$(VENV)/python -m tools.run_lint

bench: setup ## Run the benchmarks (BENCH=name for one of them)
	@$(VENV)/python -m tools.run_bench $(BENCH)

bench-rebalance: setup ## Compare ours with the peers: ten cells, 1 s, 3 seeds (15 minutes)
	@$(VENV)/python -m bench.rebalance

bench-rebalance-full: setup ## The same, peers also at 20 s, 5 seeds, large instances (90 minutes)
	@$(VENV)/python -m bench.rebalance --full --resume --docs

bench-icde17: setup ## Reproduce the figures of [ICDE17, 5.1 and 5.2], in the simulator
	@$(VENV)/python -m bench.icde17

bench-collocation: setup ## Rounds until traffic is collocated: ours, ALBIC, COLA (20 minutes)
	@$(VENV)/python -m bench.collocation --docs

bench-routing: setup ## Routing by key on real flights: locality, state moved, imbalance (15 minutes)
	@$(VENV)/python -m bench.routing --docs

bench-real-jobs: setup ## Real Jobs 2, 3 and 4 of [ICDE17] on the streaming library (30 minutes)
	@$(VENV)/python -m bench.real_jobs --docs

bench-scaling: setup ## Scaling and placing beside what [ICDE17] and [AUTODASP17] and [DODO] print (20 minutes)
	@$(VENV)/python -m bench.scaling --docs

bench-weights: setup ## Weights of an ordered region on loopback TCP: [MW16-REGIONS, 6] (30 minutes)
	@$(VENV)/python -m bench.weights --docs

bench-promises: setup ## Whether promised intervals hold, and plans and moves from noise (20 minutes)
	@$(VENV)/python -m bench.promises --docs

bench-review-page: setup ## Time every route of the review page on large warehouses (3 minutes)
	@$(VENV)/python -m bench.review_page

clean: ## Remove warehouse, run folders and caches (keeps .venv and the jars)
	@tools/clean.sh

lock: ## Resolve the dependencies of pyproject.toml again and write requirements.lock
	@tools/lock.sh
