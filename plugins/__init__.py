"""Airflow plugins: the review page."""
