"""Ours beside the peers on the rebalance problem: one run, one table, equal wall time.

``python -m bench.rebalance --help`` says how; bench/README.md says what is compared and how fairly.
"""
