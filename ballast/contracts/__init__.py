"""Words shared by every part: errors, settings, table specs, job policy. No Spark, no Airflow."""
