"""Rights of users, checked by Airflow's auth manager; only this module imports Airflow."""

from __future__ import annotations

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from fastapi import HTTPException, Request, status


class AirflowRights:
    """A user who may see runs of ``reoptimize__<job>`` may see the plans of the job."""

    def login(self, request: Request, user: GetUserDep) -> None:
        """Refuse a request without a valid login; a dependency of the whole app."""
        request.state.ballast_user = user

    def may_see(self, request: Request, job: str) -> bool:
        """Return whether the user may see a job; the name is checked by the caller."""
        # The DAG is given here. Otherwise Airflow would read it from the query.
        check = requires_access_dag("GET", DagAccessEntity.RUN, f"reoptimize__{job}")
        try:
            check(request, request.state.ballast_user)
        except HTTPException as refused:
            if refused.status_code != status.HTTP_403_FORBIDDEN:
                raise
            return False
        return True
