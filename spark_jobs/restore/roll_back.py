"""Put the content of an earlier version in force as a new version (ADR 41).

The content is checked against the nodes of today. If it does not fit, it is refused with the
reason, unless the request lets key groups of lost nodes be placed anew.
"""

from __future__ import annotations

from datetime import UTC, datetime

from ballast.contracts.errors import VerificationFailed
from ballast.contracts.records import Draft, Head, Snapshot
from ballast.contracts.regions import weighted, weights_of
from ballast.contracts.settings import Settings
from ballast.contracts.tables import ROLLBACK
from ballast.contracts.task_result import Notice, write_task_notices, write_task_result
from ballast.store.snapshots import snapshot_of_run
from solvers.model.budget import Budget
from solvers.planner.plan import ChosenContent, Plan, plan_with_content
from solvers.verify.headroom import HEADROOM
from solvers.verify.routes import BALANCE
from solvers.verify.rules import MOVE_LIMITS
from spark_jobs.draft.assemble import AssembledDraft, DraftRequest, assemble_draft
from spark_jobs.draft.content import routing_of
from spark_jobs.draft.draft_tables import find_draft, read_round, required_draft, write_draft
from spark_jobs.draft.region_weights import RegionPlan, restored_region
from spark_jobs.draft.round import Round
from spark_jobs.draft.scaling_rows import CPU
from spark_jobs.program.run import progress
from spark_jobs.publication.draft_checks import check_parent
from spark_jobs.publication.heads import head_of
from spark_jobs.publication.plan_events import log_superseded_plans
from spark_jobs.publication.publisher import already_published, put_in_force
from spark_jobs.restore.derived_snapshot import derived_snapshot
from spark_jobs.restore.earlier_version import EarlierVersion
from spark_jobs.restore.lookup import read_context, read_version, required_head
from spark_jobs.restore.lost_nodes import fit_placement
from spark_jobs.restore.refusals import check_version
from spark_jobs.restore.request import RollbackRequest
from spark_jobs.restore.scaling_differences import unchanged_scaling_rows
from spark_jobs.warehouse.plan_log import Event, append_event

# A person chose the content for reasons that no figure has. It may be worse than the head.
ACCEPTED_VIOLATIONS = (
    "better_than_nothing", "max_load_distance", BALANCE, "weights.change", "weights.floor",
    "weights.unmeasured", "weights.complete", MOVE_LIMITS, HEADROOM,
)  # fmt: skip


def roll_back(settings: Settings, job: str, run_id: str, request: RollbackRequest) -> Head:
    """Publish the content of an earlier version as a new version.

    A retry finds the snapshot and the draft of the first attempt and goes on from there.

    Returns:
        The new head.

    Raises:
        NotFound: the job has no such version, or no snapshot.
        RollbackRefused: the version does not fit the job of today. Nothing is written.
        VerificationFailed: the content breaks a rule that no person can set aside.
        PublishConflict: another version came into force meanwhile.
    """
    head = required_head(settings, job)
    snapshot = snapshot_of_run(settings, job, run_id)
    draft = find_draft(settings, snapshot) if snapshot else None
    if draft is None:
        # Before anything is written: a rollback that is refused here leaves no trace.
        earlier = _earlier_version(settings, head, request.version)
        snapshot = derived_snapshot(settings, job, run_id, head)
        draft = _write_draft(settings, snapshot, earlier, request)
    wanted = head_of(draft, datetime.now(UTC))
    if not already_published(settings, wanted):
        check_parent(settings, wanted)
        log_superseded_plans(settings, draft)
        put_in_force(settings, wanted)
    _log_rolled_back(settings, wanted, request)
    return wanted


def _earlier_version(settings: Settings, head: Head, version: int) -> EarlierVersion:
    stored = read_version(settings, head, version)
    context = read_context(settings, head, stored)
    check_version(version, stored, context)
    return EarlierVersion(stored, context.in_force.scaling)


def _write_draft(
    settings: Settings, snapshot: Snapshot, earlier: EarlierVersion, request: RollbackRequest
) -> Draft:
    made = make_rollback_draft(read_round(settings, snapshot), earlier, request)
    write_draft(settings, made)
    return required_draft(settings, snapshot)


def make_rollback_draft(
    job_round: Round, earlier: EarlierVersion, request: RollbackRequest
) -> AssembledDraft:
    """The draft that brings an earlier version back, on the job as it is today.

    Raises:
        RollbackRefused: the placement does not fit the nodes of today.
        VerificationFailed: the content breaks a rule that no person can set aside.
    """
    now = datetime.now(UTC)
    plan = _restored_plan(job_round, earlier, request)
    scaling = []
    if job_round.is_scaled:
        cpu = plan.loads(job_round.objective, CPU)
        scaling = unchanged_scaling_rows(job_round, earlier, cpu, now)
    made = assemble_draft(
        DraftRequest(
            round=job_round,
            plan=plan,
            budget=Budget(),
            seed=0,
            regions=_restored_regions(job_round, earlier, request),
            scaling=scaling,
            scaling_reason=f"{scaling[0].reason}; {request.plan_reason}" if scaling else None,
            created_at=now,
        )
    )
    broken = [each for each in made.violations if each.promise not in ACCEPTED_VIOLATIONS]
    if broken:
        raise VerificationFailed(
            f"version {request.version} of job {job_round.snapshot.job} cannot come back as it "
            f"was: {'; '.join(map(str, broken))}; the plan in force stays; to fix it: choose "
            "another version"
        )
    return made


def _restored_plan(job_round: Round, earlier: EarlierVersion, request: RollbackRequest) -> Plan:
    """The earlier content with the figures that it has today."""
    stored, problem = earlier.stored, job_round.problem
    placed = {f"{row.operator_id}/{row.key_group}": row.node_id for row in stored.assignments}
    assignment = fit_placement(problem, placed, request, job_round.policy.solver.seconds)
    routing = routing_of(stored.routes)
    content = ChosenContent(assignment, routing, ROLLBACK, request.plan_reason)
    return plan_with_content(problem, job_round.objective, job_round.keys, content)


def _restored_regions(
    job_round: Round, earlier: EarlierVersion, request: RollbackRequest
) -> list[RegionPlan]:
    """The weights of the earlier version. A region without any keeps its weights."""
    then = weighted(earlier.stored.weights)
    return [
        restored_region(region, units, request.plan_reason)
        for region in job_round.regions
        if (units := weights_of(then, region.policy.id))
    ]


def _log_rolled_back(settings: Settings, head: Head, request: RollbackRequest) -> None:
    actor = request.by or f"rollback of run {head.run_id}"
    reason = f"version {head.version} is the {request.plan_reason}"
    event = Event(head.job, "rolled_back", head.run_id, actor, reason, head.version, head.plan_id)
    append_event(settings, event)
    progress.info("%s", reason)
    text = f"job {head.job}: {reason}"
    write_task_result(
        outcome="published", version=head.version, plan_id=head.plan_id,
        content_hash=head.content_hash,
    )  # fmt: skip
    write_task_notices(Notice("rolled_back", text))
