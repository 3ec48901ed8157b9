"""A client of Airflow's REST API; it needs only the standard library.

Commands that change production go through this API, so that each change has a user with rights.
"""
