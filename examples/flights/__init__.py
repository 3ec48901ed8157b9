"""Flights out of New York in 2013, replayed: Real Job 2 of [ICDE17, 5.4] with a third operator.

Delays are extracted from each flight's raw text, then summed by airplane and year, and by
destination. ``python -m examples.flights`` runs it. ``python -m examples.flights.check`` compares
its sums with sums computed from the input.
"""
