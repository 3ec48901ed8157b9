"""Scaling and placing: seed 000's Figure 5, seed 003's 6.4 and 7.2, and seed 002's experiments.

Programs: ``python -m bench.scaling``.
"""
