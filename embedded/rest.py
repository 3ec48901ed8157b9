"""The client of Airflow's REST API, under the name that the embedded stack and its tests use."""

from ballast.airflow.rest import ENDED, AirflowClient, Json, TaskRun, wait_until

__all__ = ["ENDED", "AirflowClient", "Json", "TaskRun", "wait_until"]
