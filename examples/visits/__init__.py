"""Visits by page, counted by a Flink job: the example of docs/engine-flink.md.

``VisitCount.java`` is the job; it knows nothing of Ballast. It is also the job of ``make demo-flink``
and of the tests on a real cluster.
"""
