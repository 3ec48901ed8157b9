"""Put an earlier version's content in force again, as a new version:
``spark-submit spark_jobs/rollback.py --job J --run-id R --version V --reason WHY``.

The content is checked against the nodes of today; where it no longer fits it is refused with the
reason, unless ``--force-nodes`` lets what it has on lost nodes be placed anew by a solve that may
move nothing else. Compare-and-set as in ``publish`` (docs/adr/0041).
"""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from ballast.contracts import identity
from ballast.contracts.errors import NotFound, RollbackRefused, VerificationFailed
from ballast.contracts.policy import JobPolicy, policy_from_json
from ballast.contracts.process_exit import exit_now
from ballast.contracts.records import Head
from ballast.contracts.regions import DEAD, weighted, weights_of
from ballast.contracts.scaling import OPERATOR, scaled
from ballast.contracts.settings import Settings
from ballast.contracts.tables import ROLLBACK
from ballast.contracts.task_result import write_task_result
from ballast.store.plans import (
    read_assignment,
    read_head,
    read_log,
    read_plan,
    read_routes,
    read_scaling,
    read_weights,
    versions_of,
)
from ballast.store.snapshots import snapshot_of_run
from solvers.key_routing.routing_effect import problem_after, problem_under_plan
from solvers.model.budget import Budget
from solvers.model.key_statistics import Routing
from solvers.model.problem import IntArray
from solvers.model.result import SolverRun, make_result
from solvers.planner.allocation import Allocation
from solvers.verify.routes import BALANCE
from spark_jobs.draft.lookup import find_draft, read_round, required_draft
from spark_jobs.draft.plan_rows import (
    content_hash_of_plan,
    content_rows,
    plan_row,
    planned_routes,
    promised_cpu,
    violations_of,
)
from spark_jobs.draft.problem import Row
from spark_jobs.draft.region_weights import Weighed, as_it_was, regions_of, weight_rows
from spark_jobs.draft.region_weights import in_words as weights_in_words
from spark_jobs.draft.round import Round, routing_of
from spark_jobs.program.arguments import add_run_arguments
from spark_jobs.program.run import progress, run_program
from spark_jobs.publication.current_state import current_policy, dead_workers
from spark_jobs.publication.draft_checks import check_parent
from spark_jobs.publication.heads import head_of
from spark_jobs.publication.plan_events import log_superseded_plans
from spark_jobs.publication.publisher import already_published, put_in_force
from spark_jobs.publication.region_workers import weight_conflicts
from spark_jobs.publication.review_answer import reason as one_line
from spark_jobs.publication.staleness import SHOWN_NODES
from spark_jobs.restore.current_snapshot import (
    derived_snapshot,
    read_part,
    source_snapshot,
)
from spark_jobs.restore.fit import Wish, fitted
from spark_jobs.restore.node_checks import (
    nodes_not_as_planned,
    nodes_that_differ,
    rows_that_keep_nodes,
)
from spark_jobs.solve import write_draft
from spark_jobs.warehouse.plan_log import Event, append_event

# A person chose it, for reasons that no figure knows: it may be worse than what is in force.
CHOSEN = (
    "better_than_nothing", "max_load_distance", BALANCE, "weights.change", "weights.floor",
    "weights.unmeasured", "weights.complete",
)  # fmt: skip
LARGEST_VERSION = 10**15


@dataclass(frozen=True)
class Earlier:
    """The version to come back, and what becomes of nodes by it and by the plan in force."""

    plan_id: str
    scaling: Sequence[Row]
    in_force: Sequence[Row]
    weights: Sequence[Row] = ()
    """Rows of plans.weights of the version to come back."""


def roll_back(settings: Settings, job: str, run_id: str, wish: Wish) -> Head:
    """Publish the content of an earlier version as a new one; a retry finds its work done."""
    head = read_head(settings, job)
    if head is None:
        raise NotFound(f"job {job} has no version in force", value=job, remedy="publish one first")
    snapshot = snapshot_of_run(settings, job, run_id)
    draft = find_draft(settings, snapshot) if snapshot else None
    if draft is None:
        # Before anything is written: a rollback that is refused here leaves no trace.
        earlier = _earlier(settings, head, wish)
        snapshot = derived_snapshot(settings, job, run_id, head)
        draft = _drafted(settings, snapshot, earlier, wish)
    wanted = head_of(draft, datetime.now(UTC))
    if not already_published(settings, wanted):
        check_parent(settings, wanted)
        log_superseded_plans(settings, draft)
        put_in_force(settings, wanted)
    _log_rolled_back(settings, wanted, wish)
    return wanted


def _earlier(settings: Settings, head: Head, wish: Wish) -> Earlier:
    """The version that is asked for; refused where it is in force, or is of other nodes."""
    job = head.job
    plan_id = _plan_of(settings, job, head, wish.version)
    then, now = (read_scaling(settings, job, each) for each in (plan_id, head.plan_id))
    _check_nodes(settings, head, wish, then, now)
    if _is_in_force(settings, head, plan_id, then, now):
        raise RollbackRefused(
            f"version {wish.version} of job {job} has the content that is in force; nothing to do"
        )
    weights = read_weights(settings, job, plan_id)
    _check_workers(settings, head, wish, weights)
    return Earlier(plan_id, then, now, weights)


def _check_workers(settings: Settings, head: Head, wish: Wish, weights: Sequence[Row]) -> None:
    """Refuse a version whose weights are for other workers than there are today."""
    source = source_snapshot(settings, head.job)
    policy = current_policy(settings, policy_from_json(source["policy_json"]))
    died = dead_workers(settings, policy.job, source["period_start_at"]) if weights else {}
    found = list(weight_conflicts(policy, weights, died))
    if found:
        more = f"; and {len(found) - SHOWN_NODES} more" if len(found) > SHOWN_NODES else ""
        raise RollbackRefused(
            f"the weights of version {wish.version} of job {head.job} do not fit its ordered "
            f"regions of today: {'; '.join(found[:SHOWN_NODES])}{more}; the plan in force stays; "
            "to fix it: let the next plan weigh the workers, or choose a version with the workers "
            "of today"
        )
    dead = _dead_in_snapshot(settings, source, policy, weights)
    if dead:
        raise RollbackRefused(
            f"the newest snapshot of job {head.job} is from when {', '.join(dead[:SHOWN_NODES])} "
            f"was dead; the plan in force stays; to fix it: run reoptimize__{head.job}, then start "
            "the rollback again"
        )


def _dead_in_snapshot(
    settings: Settings, source: Row, policy: JobPolicy, weights: Sequence[Row]
) -> list[str]:
    """Workers with a weight that lived again after the snapshot which a rollback is judged by."""
    if source.get("connections_table_version") is None or not weights:
        return []
    rows = read_part(settings, "snapshots.connections", source).to_pylist()
    then = weighted(weights)
    return [
        f"worker {worker} of region {region.policy.id}"
        for region in regions_of(policy.regions, policy.window_s, rows, ())
        for worker, units in weights_of(then, region.policy.id).items()
        if units and region.state[worker] == DEAD
    ]


def _is_in_force(
    settings: Settings, head: Head, plan_id: str, then: Sequence[Row], now: Sequence[Row]
) -> bool:
    """Whether a plan of the nodes of today has the content of the head.

    Of a node that is there, one plan may say ``add`` and a later one ``keep``: the same, with
    another hash.
    """
    job = head.job
    if read_plan(settings, job, plan_id)["content_hash"] == head.content_hash:
        return True
    if not (then or now):
        return False
    return _content(settings, job, plan_id, then) == _content(settings, job, head.plan_id, now)


def _content(settings: Settings, job: str, plan_id: str, scaling: Sequence[Row]) -> str:
    """Hash of a plan's content but for its nodes: what two plans of the same nodes differ in."""
    rows = read_assignment(settings, job, plan_id)
    placed = [(row["operator_id"], row["key_group"], row["node_id"]) for row in rows]
    sizes = [row for row in scaled(scaling) if row[0] == OPERATOR]
    weights = weighted(read_weights(settings, job, plan_id))
    return identity.content_hash(placed, read_routes(settings, job, plan_id), sizes, weights)


def _check_nodes(
    settings: Settings, head: Head, wish: Wish, then: Sequence[Row], now: Sequence[Row]
) -> None:
    """Refuse a version whose nodes would have to come back with its key groups.

    Nodes come and go through drains and budgets of their own, which only a new plan has.
    """
    source = source_snapshot(settings, head.job)
    policy = current_policy(settings, policy_from_json(source["policy_json"]))
    plan_id = source.get("applied_plan_id")
    applied = read_scaling(settings, head.job, plan_id) if plan_id else []
    if policy.scaling is None and not (then or now or applied):
        return
    different = nodes_that_differ(policy, then, now)
    if different:
        raise RollbackRefused(
            f"version {wish.version} of job {head.job} used other nodes than version "
            f"{head.version}, which is in force: {_listed(different)} (then, now); the plan in "
            "force stays; to fix it: let the next plan decide on the nodes, or choose a version "
            "that used the nodes of today"
        )
    rows = read_part(settings, "snapshots.nodes", source).to_pylist()
    strange = nodes_not_as_planned(policy, now, {row["node_id"]: row["state"] for row in rows})
    if strange or (policy.scaling is None and not applied):
        raise RollbackRefused(
            f"the newest snapshot of job {head.job} does not have the nodes of version "
            f"{head.version}, which is in force{': ' if strange else ''}{_listed(strange)}; to fix "
            f"it: wait until the job has taken the version up, run reoptimize__{head.job}, then "
            "start the rollback again; where the job refused the version, let the next plan decide"
        )


def _listed(different: Mapping[str, tuple[str, str]]) -> str:
    found = [f"{name} {one}, {other}" for name, (one, other) in different.items()]
    more = len(found) - SHOWN_NODES
    return "; ".join(found[:SHOWN_NODES] + ([f"{more} more nodes"] if more > 0 else []))


def _drafted(settings: Settings, snapshot: Row, earlier: Earlier, wish: Wish) -> Row:
    job, now = snapshot["job"], datetime.now(UTC)
    given = read_round(settings, snapshot)
    planned = _planned(settings, given, earlier, wish)
    scaling = _scaling_rows(given, planned, earlier, now) if given.is_scaled else []
    weighed = _weighed(given, earlier, wish)
    weights = weight_rows(weighed, job, "")
    content_hash = content_hash_of_plan(given.problem, planned, scaling, weights)
    plan_id = identity.plan_id(job, snapshot["snapshot_id"], content_hash)
    scaling = [{**row, "plan_id": plan_id} for row in scaling]
    weights = [{**row, "plan_id": plan_id} for row in weights]
    content = content_rows(job, plan_id, given.problem, planned)
    content = replace(content, scaling=scaling, weights=weights)
    plan = plan_row(given, plan_id, content_hash, planned, Budget(), 0, now)
    plan["weights_reason"] = weights_in_words(weighed)
    if scaling:
        plan |= {"due_moves": 0, "scaling_reason": f"{scaling[0]['reason']}; {wish.in_words}"}
    found = violations_of(
        given, plan, content.assignments, planned_routes(planned), scaling, weights
    )
    broken = [violation for violation in found if violation.promise not in CHOSEN]
    if broken:
        listed = "; ".join(map(str, broken))
        raise VerificationFailed(
            f"version {wish.version} of job {job} cannot come back as it was: "
            f"{listed}; the plan in force stays; to fix it: choose another version"
        )
    write_draft(settings, plan, content)
    return required_draft(settings, snapshot)


def _weighed(given: Round, earlier: Earlier, wish: Wish) -> list[Weighed]:
    """The weights of the earlier version; a region that it did not weigh keeps what it has."""
    then = weighted(earlier.weights)
    return [
        as_it_was(region, units, wish.in_words)
        for region in given.regions
        if (units := weights_of(then, region.policy.id))
    ]


def _scaling_rows(given: Round, planned: Allocation, earlier: Earlier, now: datetime) -> list[Row]:
    common = {
        "job": given.snapshot["job"],
        "plan_id": "",
        "period_end_at": given.snapshot["period_end_at"],
        "decided_at": now,
    }
    cpu = promised_cpu(given, planned)
    return rows_that_keep_nodes(given, earlier.scaling, earlier.in_force, cpu, common)


def _planned(settings: Settings, given: Round, earlier: Earlier, wish: Wish) -> Allocation:
    """The earlier content on today's problem, with the figures it has there."""
    job, plan_id = given.snapshot["job"], earlier.plan_id
    rows = read_assignment(settings, job, plan_id)
    placed = {f"{row['operator_id']}/{row['key_group']}": row["node_id"] for row in rows}
    assignment = fitted(given.problem, placed, wish, given.policy.solver.seconds)
    routing = routing_of(read_routes(settings, job, plan_id))
    return _with_figures(given, assignment, routing, wish)


def _with_figures(given: Round, assignment: IntArray, routing: Routing, wish: Wish) -> Allocation:
    problem = given.problem
    after = problem_after(problem, given.statistics, given.routing, routing)
    if given.objective.is_joint:
        after = problem_under_plan(given.objective, problem, assignment, after)
    # Always a change: a version whose content is in force was refused before.
    run = SolverRun(ROLLBACK, bound=0.0, seconds=0.0, reason=wish.in_words)
    result = make_result(problem, assignment, run, after=after, is_changed=True)
    return Allocation(result, routing=routing)


def _plan_of(settings: Settings, job: str, head: Head, version: int) -> str:
    versions = versions_of(read_log(settings, job), head)
    if version not in versions:
        raise NotFound(
            f"job {job} has no version {version}", value=version,
            allowed=f"{min(versions)} to {max(versions)}", remedy=f"see `ballast plans list {job}`",
        )  # fmt: skip
    return versions[version]


def _log_rolled_back(settings: Settings, head: Head, wish: Wish) -> None:
    actor = wish.by or f"rollback of run {head.run_id}"
    reason = f"version {head.version} is the {wish.in_words}"
    event = Event(head.job, "rolled_back", head.run_id, actor, reason, head.version, head.plan_id)
    append_event(settings, event)
    progress.info("%s", reason)
    text = f"job {head.job}: {reason}"
    write_task_result(
        outcome="published", version=head.version, plan_id=head.plan_id,
        content_hash=head.content_hash, notice={"kind": "rolled_back", "text": text},
    )  # fmt: skip


def version_number(text: str) -> int:
    """A version, matched as a whole."""
    if not re.fullmatch(r"[1-9][0-9]{0,15}", text) or int(text) > LARGEST_VERSION:
        raise ArgumentTypeError(f"version {text[:40]!r} cannot be used; allowed: 1, 2, ...")
    return int(text)


def why(text: str) -> str:
    """The reason: there must be one."""
    line = one_line(text)
    if not line:
        raise ArgumentTypeError("is empty; say why, for who reads the log")
    return line


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of ``rollback``."""
    add_run_arguments(parser)
    parser.add_argument("--version", type=version_number, required=True, help="version to take up")
    parser.add_argument("--reason", type=why, required=True, help="why; kept in the log of plans")
    parser.add_argument(
        "--force-nodes", nargs="?", choices=("true", "false"), const="true", default="false",
        help="place anew what the version has on nodes that are lost",
    )  # fmt: skip
    parser.add_argument("--by", type=one_line, default="", help="who asked for it")


def body(arguments: Namespace, settings: Settings) -> None:
    """Run ``rollback`` as the command line asks for it."""
    wish = Wish(arguments.version, arguments.reason, arguments.force_nodes == "true", arguments.by)
    roll_back(settings, arguments.job, arguments.run_id, wish)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    return run_program("rollback", "Put an earlier version in force.", add_arguments, body, argv)


if __name__ == "__main__":
    exit_now(main())
