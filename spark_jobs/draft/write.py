"""Write a draft: content and promises first, then the row of plans.plans that makes it a draft.

A run and a snapshot have one draft, however often the task is retried and wherever it was killed.
"""

from __future__ import annotations

from ballast.contracts.fault_points import fault_point
from ballast.contracts.settings import Settings
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import append_once
from spark_jobs.draft.assemble import AssembledDraft
from spark_jobs.draft.content import route_rows
from spark_jobs.program.run import progress

TABLES_WRITTEN = (
    "plans.assignments", "plans.routes", "plans.scaling", "plans.weights", "plans.promises",
    "plans.plans",
)  # fmt: skip


def write_draft(settings: Settings, made: AssembledDraft) -> None:
    """Write a draft. Rows that an earlier attempt wrote stay as they are."""
    draft, content = made.draft, made.content
    ensure_tables(settings, TABLES_WRITTEN)
    # One write for each plan id: two attempts that find the same plan share its rows. Rows of
    # another plan stay without a draft that names them.
    tables = {
        "plans.assignments": content.assignments,
        "plans.routes": route_rows(draft.job, draft.plan_id, content.routes),
        "plans.scaling": [row.to_row() for row in content.scaling],
        "plans.weights": [row.to_row() for row in content.weights],
        "plans.promises": [row.to_row() for row in made.promises],
    }
    for table, rows in tables.items():
        if len(rows):
            app_id = f"{table}:{draft.job}:{draft.plan_id}"
            append_once(settings, table, rows, app_id=app_id, app_version=1)
            progress.info("wrote %d rows of %s", len(rows), table)
        fault_point(f"solve.after_{table.removeprefix('plans.')}")
    app_id = f"plans.plans:{draft.job}:{draft.run_id}:{draft.snapshot_id}"
    append_once(settings, "plans.plans", [draft.to_row()], app_id=app_id, app_version=1)
    progress.info("wrote the draft")
    fault_point("solve.after_plan")
