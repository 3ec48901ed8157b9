"""Rounds until collocation is reached: ours, ALBIC, COLA and a proven bound.

Programs: ``python -m bench.collocation``.
"""
