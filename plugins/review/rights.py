"""Who may see what, by Airflow's own auth manager; of the page, this alone imports Airflow."""

from __future__ import annotations

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from fastapi import HTTPException, Request, status


class AirflowRights:
    """Plans of a job are for those who may see runs of the DAG that makes them."""

    def login(self, request: Request, user: GetUserDep) -> None:
        """Refuses a request without a good login; a dependency of the whole app."""
        request.state.ballast_user = user

    def may_see(self, request: Request, job: str) -> bool:
        """Whether the user may see a job. Its name has been checked."""
        # The DAG is fixed here: left open, Airflow would take another one from the query.
        check = requires_access_dag("GET", DagAccessEntity.RUN, f"reoptimize__{job}")
        try:
            check(request, request.state.ballast_user)
        except HTTPException as refused:
            if refused.status_code != status.HTTP_403_FORBIDDEN:
                raise
            return False
        return True
