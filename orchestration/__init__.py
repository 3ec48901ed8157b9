"""What DAG files are made of: operators, notices, assets, and one DAG a job from its policy.

Airflow and ``ballast.contracts`` alone: whatever touches a table is a program of ``spark_jobs``.
"""
