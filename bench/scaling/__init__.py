"""Scaling and placing: [ICDE17]'s Figure 5, [DODO]'s 6.4 and 7.2, and [AUTODASP17]'s experiments.

Programs: ``python -m bench.scaling``.
"""
