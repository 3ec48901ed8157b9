"""Visits by page, counted by a Flink job: the example of docs/engine-flink.md.

``VisitCount.java`` is the job; it knows nothing of Ballast. ``make demo-flink`` and the tests on a
real cluster run it.
"""
