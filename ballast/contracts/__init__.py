"""Definitions shared by every part: errors, settings, tables, policies. No Spark, no Airflow."""
