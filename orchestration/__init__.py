"""The parts of DAG files: operators, notices, assets, and one DAG for each policy file.

This package imports Airflow and ``ballast.contracts`` only. Programs of ``spark_jobs`` read and
write the tables.
"""
