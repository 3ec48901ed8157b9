"""Solvers: pure functions on arrays. No Spark, no Airflow, no files, and nothing printed.

``solvers.planner`` is the entry point for a whole round. The other packages solve one problem each.
PuLP and HiGHS are imported when first used.
"""
