"""Fills an Airflow database for tests of rights: ``python -m tests.support.fab_setup DAGS``.

It runs inside the environment of a stack that uses the FAB auth manager. One process does all of
it, because each command of Airflow takes ten seconds to start.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

JOBS = ("clicks", "orders")
DAGS = ("reoptimize", "review", "rollback")
PASSWORD = "only for this test"
# Each user has the role of the same name, except these.
ROLES = {"vera": "Viewer", "clara": "clicks_editor", "otto": "orders_editor"}

DAG_FILE = """
from airflow.sdk import DAG, Param, task

for job in {jobs!r}:
    for kind in {kinds!r}:
        params = {{"version": Param(1, type="integer")}}
        with DAG(f"{{kind}}__{{job}}", schedule=None, params=params) as dag:

            @task(task_id="approve")
            def nothing():
                pass

            nothing()
        globals()[dag.dag_id] = dag
"""


def main() -> None:
    dags = Path(sys.argv[1])
    (dags / "jobs.py").write_text(DAG_FILE.format(jobs=JOBS, kinds=DAGS))
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.providers.fab.auth_manager.cli_commands.utils import get_application_builder

    DagBundlesManager().sync_bundles_to_db()
    bag = DagBag(str(dags), bundle_path=dags, bundle_name="dags-folder")
    if bag.import_errors:
        raise SystemExit(str(bag.import_errors))
    sync_bag_to_db(bag, "dags-folder", None)
    with get_application_builder() as builder:
        manager = builder.sm
        manager.sync_roles()
        for job in JOBS:
            _add_editor(manager, job)
        for name, role in ROLES.items():
            manager.add_user(
                name, name, "Test", f"{name}@example.com", manager.find_role(role), PASSWORD
            )


def _add_editor(manager: Any, job: str) -> None:
    """Add a role that may edit the DAGs of one job only."""
    role = manager.add_role(f"{job}_editor")
    wanted = [("can_read", "Website"), ("can_read", "HITL Detail"), ("can_edit", "HITL Detail")]
    for kind in DAGS:
        dag = f"{kind}__{job}"
        wanted += [(action, f"DAG:{dag}") for action in ("can_read", "can_edit")]
        wanted += [(action, f"DAG Run:{dag}") for action in ("can_read", "can_create")]
    for action, resource in wanted:
        manager.add_permission_to_role(role, manager.create_permission(action, resource))


if __name__ == "__main__":
    main()
