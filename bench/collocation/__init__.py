"""Rounds until what talks to each other is together: ours beside ALBIC, COLA and a proven bound.

Programs: ``python -m bench.collocation``.
"""
