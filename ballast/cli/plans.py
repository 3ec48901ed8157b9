"""``ballast plans``: lists plans, shows one, compares two, and prints the log of a job."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from ballast.cli.promises import print_promises, promise_fields
from ballast.cli.render import cell_text, record_table, text_table, to_json
from ballast.contracts.errors import InvalidInput
from ballast.contracts.json_values import json_value
from ballast.contracts.log_events import DRAFTED
from ballast.contracts.records import AssignedKeyGroup, WorkerWeight
from ballast.contracts.settings import check_job_name, load_settings
from ballast.readmodel.changes import (
    NodePlan,
    node_difference,
    node_plan,
    route_difference,
    split_difference,
    weight_difference,
    weight_rows,
)
from ballast.readmodel.job_history import JobHistory, plan_in_force
from ballast.readmodel.moves import MoveFilter
from ballast.readmodel.placement import difference
from ballast.readmodel.plans import (
    PlanDetail,
    PlanSummary,
    plan_detail,
    plan_summaries,
)
from ballast.readmodel.promises import PromisedFigure
from ballast.store.cache import TableCache
from ballast.store.plans import read_assignment

PLAN_FIGURES = (
    "objective", "method", "status", "reason", "scaling_reason", "weights_reason",
    "load_distance_before_pct", "load_distance_pct",
    "max_load_distance_pct", "trade", "traffic_weight", "load_weight",
    "traffic_saved_before_pct", "traffic_saved_pct", "bound_pct", "gap_pct",
    "collocation_bound_pct",
    "precision", "gain_chance_pct",
    "levelled_operator_id", "operator_skew_before_pct", "operator_skew_pct", "levelling_limit_pct",
    "rules", "restored_rules", "headroom_limit_pct", "headroom_before_pct", "headroom_pct",
    "moves", "bytes",
    "forced_moves", "forced_bytes", "pause_s", "routes", "rerouted_keys", "route_bytes",
    "split_keys", "unsplit_bound_pct",
    "collocation_factor_before_pct", "collocation_factor_pct",
    "load_index_pct", "wire_bytes_before_per_s", "wire_bytes_per_s", "serialise_us",
    "budget_moves", "budget_bytes", "budget_pause_s", "solver_seconds",
    "parent_version", "run_id", "snapshot_id", "content_hash", "created_at",
)  # fmt: skip


ROUTES_SHOWN = 100
ROUTES_IN_TEXT = 20


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "plans", help="list, show and compare plans", epilog="example: ballast plans list flights"
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    listing = _command(commands, "list", "a job's plans, published or not", _list)
    listing.add_argument("--limit", type=int, default=50, help="newest N drafts (default 50)")
    show = _command(commands, "show", "one plan: promise, moves, log, outcome", _show)
    show.add_argument("version", nargs="?", help="version or plan id (default: the one in force)")
    show.add_argument("--all", action="store_true", help="every key group, not only the moves")
    diff = _command(commands, "diff", "where two plans differ: nodes, routes, key groups", _diff)
    diff.add_argument("old", metavar="OLD", help="version or plan id; 0: before the first plan")
    diff.add_argument(
        "new", metavar="NEW", nargs="?", help="version or plan id (default: in force)"
    )
    promises = _command(
        commands, "promises", "what versions promised and what was measured", _promises
    )
    promises.add_argument("--limit", type=int, default=50, help="newest N versions (default 50)")
    log = _command(commands, "log", "who did what to a job's plans, when and why", _log)
    log.add_argument("--limit", type=int, default=50, help="newest N events (default 50)")


EXAMPLES = {
    "list": "ballast plans list flights --limit 10",
    "show": "ballast plans show flights 3",
    "diff": "ballast plans diff flights 2 3",
    "promises": "ballast plans promises flights",
    "log": "ballast plans log flights --json",
}


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    text: str,
    run: Callable[[argparse.Namespace], int],
) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name, help=text, description=text.capitalize() + ".", epilog=f"example: {EXAMPLES[name]}"
    )
    parser.add_argument("job", metavar="JOB")
    parser.add_argument("--json", action="store_true", help="for scripts")
    parser.set_defaults(run=run)
    return parser


def _history(args: argparse.Namespace) -> JobHistory:
    return JobHistory(TableCache(load_settings()), check_job_name(args.job))


def _limit(args: argparse.Namespace) -> int:
    if args.limit < 1:
        raise InvalidInput(f"--limit is {args.limit}", value=args.limit, allowed="1 or more")
    return int(args.limit)


def _log(args: argparse.Namespace) -> int:
    entries = _history(args).log[-_limit(args) :]
    if args.json:
        print(to_json(entries))
    elif entries:
        print(record_table(entries, ("at", "event", "version", "plan_id", "actor", "reason")))
    else:
        print(f"nothing has happened to plans of job {args.job} yet")
    return 0


def _promises(args: argparse.Namespace) -> int:
    return print_promises(_history(args), _limit(args), as_json=args.json)


def _list(args: argparse.Namespace) -> int:
    summaries = plan_summaries(_history(args))[-_limit(args) :]
    if args.json:
        print(to_json([_list_fields(summary) for summary in summaries]))
    elif summaries:
        rows = [_list_row(summary) for summary in summaries]
        print(text_table(list(rows[0]), [list(row.values()) for row in rows]))
    else:
        print(f"job {args.job} has no plans yet; trigger reoptimize__{args.job} in Airflow")
    return 0


def _list_fields(summary: PlanSummary) -> dict[str, Any]:
    plan = summary.plan
    return {
        "version": summary.version,
        "in_force": summary.in_force,
        "plan_id": plan.plan_id,
        "created_at": plan.created_at,
        "last_event": _last_event(summary),
        "method": plan.method,
        "load_distance_before_pct": plan.load_distance_before_pct,
        "load_distance_pct": plan.load_distance_pct,
        "load_distance": promise_fields(summary.load_distance),
        "gap_pct": plan.gap_pct,
        "moves": plan.moves,
        "bytes": plan.bytes,
        "run_id": plan.run_id,
    }


def _list_row(summary: PlanSummary) -> dict[str, Any]:
    plan, load_distance = summary.plan, summary.load_distance
    return {
        "version": summary.version,
        "in_force": summary.in_force,
        "plan_id": plan.plan_id,
        "created_at": plan.created_at,
        "last_event": _last_event(summary),
        "method": plan.method,
        "load_distance_before": load_distance.before_text,
        "promised": load_distance.promised_text,
        "measured": load_distance.measured_text,
        "moves": plan.moves,
        "bytes": plan.bytes,
        "run_id": plan.run_id,
    }


def _last_event(summary: PlanSummary) -> str:
    return summary.last_event.event if summary.last_event else DRAFTED


def _show(args: argparse.Namespace) -> int:
    history = _history(args)
    detail = plan_detail(history, args.version)
    nodes = node_plan(history, detail.plan)
    assignment = read_assignment(history.cache.settings, history.job, detail.plan.plan_id)
    moves = [row for row in assignment if row.node_id != row.previous_node_id]
    weights = weight_rows(history, detail.plan.plan_id)
    if args.json:
        print(
            to_json(
                {
                    "job": detail.job,
                    "version": detail.version,
                    "plan": detail.plan,
                    "nodes": nodes,
                    "assignment": assignment,
                    "weights": weights,
                    "moves": moves,
                    "log": detail.log,
                    "acks": detail.acks,
                    "region_acks": detail.region_acks,
                    "promises": detail.promises,
                    "outcomes": detail.outcomes,
                }
            )
        )
        return 0
    key_groups = _key_group_lines("Key groups" if args.all else "Moves",
                                  assignment if args.all else moves)  # fmt: skip
    parts = [
        _heading(detail),
        "\n".join(_sentences(detail)),
        *_node_lines(nodes),
        key_groups,
        *_weight_lines(weights),
        *_event_lines(detail),
    ]
    print("\n\n".join(parts))
    return 0


def _heading(detail: PlanDetail) -> str:
    version = detail.version
    named = f"version {version}" if version else "a draft that was not published"
    width = max(len(name) for name in PLAN_FIGURES)
    # By the name of the column, as figures are named.
    promised = {row.figure: row.promised_text for row in detail.figures if row.low is not None}
    figures = (
        f"  {name.ljust(width)}  {cell_text(promised.get(name, getattr(detail.plan, name)))}"
        for name in PLAN_FIGURES
    )
    return "\n".join([f"Job {detail.job}, {named}, plan {detail.plan.plan_id}\n", *figures])


def _sentences(detail: PlanDetail) -> list[str]:
    """Return sentences about the figures of the plan and about the run of the solver."""
    plan = detail.plan
    solved = f"solved by {plan.method} in {plan.solver_seconds:.1f} s"
    steps = detail.progress
    return [
        detail.reason,
        f"This plan is {detail.quality}; {solved}.",
        *([f"Best load distance while it ran: {steps}."] if steps else []),
        *(f"Held back: {line}." for line in detail.held_back),
        *(f"Rule {line}." for line in (plan.rules_text or "").splitlines()),
        # Advice on the partitioning of operators: only a change of the job can follow it.
        *(f"Advice: {line}." for line in (plan.advice or "").splitlines()),
    ]


def _node_lines(nodes: NodePlan | None) -> list[str]:
    """Return the lines about nodes; none for a plan that does not decide on nodes."""
    if nodes is None:
        return []
    counts = f"{cell_text(nodes.before)} before, {cell_text(nodes.wanted)} with the plan"
    lines = [
        f"Nodes: {counts}; {nodes.reason}",
        f"Bound by {nodes.binding}; what would have changed it: {nodes.would_change}",
    ]
    if nodes.changes:
        lines.append(record_table(nodes.changes))
    if nodes.spare_count:
        more = nodes.spare_count - len(nodes.spares)
        lines.append(f"Kept spare: {', '.join(nodes.spares)}{f' and {more} more' if more else ''}")
    return ["\n".join(lines)]


def _key_group_lines(title: str, rows: Sequence[AssignedKeyGroup]) -> str:
    columns = ("operator_id", "key_group", "previous_node_id", "node_id", "state_bytes")
    return _section(f"{title} ({len(rows)})", rows, columns)


def _weight_lines(weights: Sequence[WorkerWeight]) -> list[str]:
    columns = ("region_id", "worker_id", "previous_weight", "weight", "state", "records_per_s",
               "reason")  # fmt: skip
    return [_section("Weights of workers, in units of 0.1 %", weights, columns)] if weights else []


def _event_lines(detail: PlanDetail) -> list[str]:
    acks = ("status", "batch_id", "step", "steps", "moved_key_groups", "bytes_moved", "pause_ms",
            "longest_pause_ms", "acked_at", "reason")  # fmt: skip
    parts = [_section("Take-up", detail.acks, acks)]
    if detail.region_acks:
        columns = ("region_id", "status", "acked_at", "reason")
        parts.append(_section("Take-up by ordered regions", detail.region_acks, columns))
    parts.append(_promise_table(detail.figures))
    parts.append(_section("Log", detail.log, ("at", "event", "actor", "reason")))
    return parts


def _promise_table(figures: Sequence[PromisedFigure]) -> str:
    headers = ("figure", "before", "promised, 90 % interval", "measured", "windows", "measured_at",
               "measured last")  # fmt: skip
    rows = [
        [figure.figure, figure.before_text, figure.promised_text, figure.measured_text,
         figure.windows, figure.measured_at, figure.last_measured_text]
        for figure in figures
    ]  # fmt: skip
    reasons = dict.fromkeys(figure.reason for figure in figures if figure.reason)
    lines = [
        f"No interval for {', '.join(f.figure for f in figures if f.reason == reason)}: {reason}."
        for reason in reasons
    ]
    return "\n".join(["Promised and measured", text_table(headers, rows), *lines])


def _section(title: str, rows: Sequence[object], columns: tuple[str, ...]) -> str:
    return f"{title}\n" + (record_table(rows, columns) if rows else "  (none yet)")


def _diff(args: argparse.Namespace) -> int:
    history = _history(args)
    old, new = args.old, args.new or plan_in_force(history).plan_id
    groups = difference(history, old, new, MoveFilter()).rows
    cluster = node_difference(history, old, new)
    routes = route_difference(history, old, new, ROUTES_SHOWN)
    weights = weight_difference(history, old, new)
    splits = split_difference(history, old, new)
    if args.json:
        rerouted = {"rerouted_keys": routes.total, "routes": routes.rows}
        parts = {"key_groups": groups, **json_value(cluster), **rerouted, "weights": weights,
                 "splits": splits}  # fmt: skip
        print(to_json(parts))
        return 0
    before, after = cluster.nodes_in_use
    # Nodes first: they explain why many key groups differ.
    lines = [f"nodes in use: {before} and {after}; in another state: {len(cluster.nodes)}"]
    lines += [record_table(rows) for rows in (cluster.nodes, cluster.operators) if rows]
    if routes.total:
        shown = routes.rows[:ROUTES_IN_TEXT]
        listed = f", here {len(shown)} of them" if len(shown) < routes.total else ""
        lines.append(f"keys that go to another key group: {routes.total:,}{listed} "
                     f"(- is by hash)\n\n{record_table(shown)}")  # fmt: skip
    if splits:
        lines.append("keys that are split otherwise, by the key groups of their parts (- is one "
                     f"key group)\n\n{record_table(splits)}")  # fmt: skip
    if weights:
        lines.append("workers of ordered regions with another weight, in units of 0.1 %\n\n"
                     f"{record_table(weights)}")  # fmt: skip
    lines.append(f"{len(groups)} key groups differ" if groups else "no key group differs")
    lines += [record_table(groups)] if groups else []
    print("\n\n".join(lines))
    return 0
