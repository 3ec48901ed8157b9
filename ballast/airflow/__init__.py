"""Airflow's REST API as a client sees it: what writes to production goes through it, so that it
has a name and rights. Needs the standard library alone."""
