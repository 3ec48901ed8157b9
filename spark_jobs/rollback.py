"""Put an earlier version's content in force again, as a new version:
``spark-submit spark_jobs/rollback.py --job J --run-id R --version V --reason WHY``.

The content is checked against the nodes of today; where it no longer fits it is refused with the
reason, unless ``--force-nodes`` lets what it has on lost nodes be placed anew by a solve that may
move nothing else. Compare-and-set as in ``publish`` (docs/adr/0041).
"""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from datetime import UTC, datetime

from ballast.contracts import identity
from ballast.contracts.errors import NotFound, RollbackRefused, VerificationFailed
from ballast.contracts.handoff import hand_on
from ballast.contracts.settings import Settings
from ballast.contracts.tables import ROLLBACK
from ballast.store.plans import (
    Head,
    read_assignment,
    read_head,
    read_log,
    read_plan,
    read_routes,
    versions_of,
)
from solvers import Budget
from solvers.collocate.keys.rerouting import Routing, problem_after
from solvers.planning import Planned
from solvers.problem import IntArray
from solvers.result import make_result
from solvers.routing import under_plan
from spark_jobs.answers import reason as one_line
from spark_jobs.arguments import add_run_arguments
from spark_jobs.derived import derived_snapshot
from spark_jobs.drafts import find_draft, read_round, required_draft
from spark_jobs.fitting import Wish, fitted
from spark_jobs.log import Event, append_event
from spark_jobs.plan_rows import (
    content_hash_of_plan,
    content_rows,
    plan_row,
    planned_routes,
    violations_of,
)
from spark_jobs.problems import Row
from spark_jobs.program import leave, progress, run_program
from spark_jobs.publishing import (
    already_published,
    check_parent,
    head_of,
    put_in_force,
    supersede_waiting,
)
from spark_jobs.rounds import Round, routing_of
from spark_jobs.solve import write_draft

# A person chose it, for reasons that no figure knows: it may be worse than what is in force.
CHOSEN = ("better_than_nothing", "max_load_distance")
LARGEST_VERSION = 10**15


def roll_back(settings: Settings, job: str, run_id: str, wish: Wish) -> Head:
    """Publish the content of an earlier version as a new one; a retry finds its work done."""
    head = read_head(settings, job)
    if head is None:
        raise NotFound(f"job {job} has no version in force", value=job, remedy="publish one first")
    snapshot = derived_snapshot(settings, job, run_id, head)
    draft = find_draft(settings, snapshot)
    if draft is None:
        draft = _drafted(settings, snapshot, head, wish)
    wanted = head_of(draft, datetime.now(UTC))
    if not already_published(settings, wanted):
        check_parent(settings, wanted)
        supersede_waiting(settings, draft)
        put_in_force(settings, wanted)
    _log_rolled_back(settings, wanted, wish)
    return wanted


def _drafted(settings: Settings, snapshot: Row, head: Head, wish: Wish) -> Row:
    given = read_round(settings, snapshot)
    if given.is_scaled:
        raise RollbackRefused(
            f"plans of job {head.job} also decide on its nodes, and those of version "
            f"{wish.version} cannot come back with their key groups yet; to fix it: let the next "
            "plan level the load, or take scaling out of the policy first"
        )
    planned = _planned(settings, given, head, wish)
    content_hash = content_hash_of_plan(given.problem, planned)
    plan_id = identity.plan_id(snapshot["job"], snapshot["snapshot_id"], content_hash)
    content = content_rows(snapshot["job"], plan_id, given.problem, planned)
    plan = plan_row(given, plan_id, content_hash, planned, Budget(), 0, datetime.now(UTC))
    found = violations_of(given, plan, content.assignments, planned_routes(planned))
    broken = [violation for violation in found if violation.promise not in CHOSEN]
    if broken:
        listed = "; ".join(map(str, broken))
        raise VerificationFailed(
            f"version {wish.version} of job {snapshot['job']} cannot come back as it was: "
            f"{listed}; the plan in force stays; to fix it: choose another version"
        )
    write_draft(settings, plan, content)
    return required_draft(settings, snapshot)


def _planned(settings: Settings, given: Round, head: Head, wish: Wish) -> Planned:
    """The earlier content on today's problem, with the figures it has there."""
    job = head.job
    plan_id = _plan_of(settings, job, head, wish.version)
    old = read_plan(settings, job, plan_id)
    if old["content_hash"] == head.content_hash:
        raise RollbackRefused(
            f"version {wish.version} of job {job} has the content that is in force; nothing to do"
        )
    rows = read_assignment(settings, job, plan_id)
    placed = {f"{row['operator_id']}/{row['key_group']}": row["node_id"] for row in rows}
    assignment = fitted(given.problem, placed, wish, given.policy.solver.seconds)
    routing = routing_of(read_routes(settings, job, plan_id))
    return _with_figures(given, assignment, routing, wish)


def _with_figures(given: Round, assignment: IntArray, routing: Routing, wish: Wish) -> Planned:
    problem = given.problem
    after = problem_after(problem, given.statistics, given.routing, routing)
    if given.objective.is_joint:
        after = under_plan(given.objective, problem, assignment, after)
    result = make_result(
        problem, assignment, method=ROLLBACK, bound=0.0, seconds=0.0, reason=wish.in_words,
        after=after, is_changed=routing != given.routing,
    )  # fmt: skip
    return Planned(result, routing=routing)


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
    hand_on(
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
    leave(main())
