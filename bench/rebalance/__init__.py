"""Compares Ballast with its peers on the rebalance problem: one run, one table, equal wall time.

``python -m bench.rebalance --help`` lists the options; bench/README.md describes the comparison.
"""
