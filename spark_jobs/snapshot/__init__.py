"""The steps of ``condense``: look up, read the period, gate, judge, average, write."""
