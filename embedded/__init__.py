"""Everything on one machine: Airflow as a few child processes, Spark local, Delta in a folder."""
