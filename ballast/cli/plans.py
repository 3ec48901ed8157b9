"""``ballast plans``: lists plans, shows one, compares two, and prints the log of a job."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ballast.cli.plan_page import PlanPage, detail_parts, key_group_part, summary_parts
from ballast.cli.promises import print_promises, promise_fields
from ballast.cli.render import (
    GOOD,
    measured_cell,
    print_json,
    record_table,
    section,
    styled,
    text_table,
    title_of,
)
from ballast.cli.terminal import output_terminal, print_parts
from ballast.contracts.errors import InvalidInput, NotFound
from ballast.contracts.json_values import json_value
from ballast.contracts.log_events import DRAFTED
from ballast.contracts.settings import check_job_name, load_settings
from ballast.readmodel.changes import (
    RouteDifference,
    node_difference,
    node_plan,
    route_difference,
    split_difference,
    weight_difference,
    weight_rows,
)
from ballast.readmodel.job_history import JobHistory, plan_in_force
from ballast.readmodel.moves import MoveFilter
from ballast.readmodel.placement import NodeLoads, difference, node_loads
from ballast.readmodel.plans import (
    PlanDetail,
    PlanSummary,
    plan_detail,
    plan_summaries,
)
from ballast.store.cache import TableCache
from ballast.store.plans import read_assignment

if TYPE_CHECKING:
    from rich.console import RenderableType

SPLIT_TITLE = "keys that are split otherwise, by the key groups of their parts (- is one key group)"
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
    show = _command(
        commands, "show", "one plan: promised and measured figures, load per node", _show
    )
    show.add_argument("version", nargs="?", help="version or plan id (default: the one in force)")
    show.add_argument(
        "--details", action="store_true", help="also every field, the moves, take-up and log"
    )
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
    "show": "ballast plans show flights 3 --details",
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
        print_json(entries)
    elif entries:
        columns = ("at", "event", "version", "plan_id", "actor", "reason")
        print_parts(record_table(entries, columns))
    else:
        print_parts(f"nothing has happened to plans of job {args.job} yet")
    return 0


def _promises(args: argparse.Namespace) -> int:
    return print_promises(_history(args), _limit(args), as_json=args.json)


def _list(args: argparse.Namespace) -> int:
    summaries = plan_summaries(_history(args))[-_limit(args) :]
    if args.json:
        print_json([_list_fields(summary) for summary in summaries])
    elif summaries:
        rows = [_list_row(summary) for summary in summaries]
        names = [title_of(name) for name in rows[0]]
        print_parts(text_table(names, [list(row.values()) for row in rows]))
    else:
        print_parts(f"job {args.job} has no plans yet; trigger reoptimize__{args.job} in Airflow")
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
    """The columns of the list; --json has more."""
    plan, load_distance, last = summary.plan, summary.load_distance, summary.last_event
    at = last.at if last else plan.created_at
    event = "in force" if summary.in_force else _last_event(summary).replace("_", " ")
    return {
        "version": summary.version,
        "plan_id": plan.plan_id,
        "last_event": styled(f"{event} {at:%Y-%m-%d %H:%M}", GOOD if summary.in_force else ""),
        "before": load_distance.before_text,
        "promised": load_distance.promised_text,
        "measured": measured_cell(load_distance.measured_text),
        "moves": plan.moves,
    }


def _last_event(summary: PlanSummary) -> str:
    return summary.last_event.event if summary.last_event else DRAFTED


def _show(args: argparse.Namespace) -> int:
    history = _history(args)
    detail = plan_detail(history, args.version)
    page = PlanPage(
        detail=detail,
        nodes=node_plan(history, detail.plan),
        assignment=read_assignment(history.cache.settings, history.job, detail.plan.plan_id),
        weights=weight_rows(history, detail.plan.plan_id),
    )
    if args.json:
        print_json(_show_fields(page))
        return 0
    loads, reason = _loads(history, detail)
    page = replace(page, loads=loads, no_loads_reason=reason)
    parts = detail_parts if args.details else summary_parts
    every = [key_group_part("Key groups", page.assignment)] if args.all else []
    print_parts(*parts(page, output_terminal()), *every)
    return 0


def _show_fields(page: PlanPage) -> dict[str, Any]:
    detail = page.detail
    return {
        "job": detail.job,
        "version": detail.version,
        "plan": detail.plan,
        "nodes": page.nodes,
        "assignment": page.assignment,
        "weights": page.weights,
        "moves": page.moves,
        "log": detail.log,
        "acks": detail.acks,
        "region_acks": detail.region_acks,
        "promises": detail.promises,
        "outcomes": detail.outcomes,
    }


def _loads(history: JobHistory, detail: PlanDetail) -> tuple[NodeLoads | None, str]:
    """The load per node, or why it is not known."""
    try:
        return node_loads(history, detail.plan.plan_id), ""
    except NotFound as error:
        return None, str(error)


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
        parts = {"key_groups": groups, **json_value(cluster), **rerouted}
        print_json(parts | {"weights": weights, "splits": splits})
        return 0
    before, after = cluster.nodes_in_use
    # Nodes first: they explain why many key groups differ.
    print_parts(
        f"nodes in use: {before} and {after}; in another state: {len(cluster.nodes)}",
        *(record_table(rows) for rows in (cluster.nodes, cluster.operators) if rows),
        *_route_parts(routes),
        *_titled(SPLIT_TITLE, splits),
        *_titled("workers of ordered regions with another weight, in units of 0.1 %", weights),
        *(_titled(f"{len(groups):,} key groups differ", groups) or ["no key group differs"]),
    )
    return 0


def _route_parts(routes: RouteDifference) -> list[RenderableType]:
    shown = routes.rows[:ROUTES_IN_TEXT]
    listed = f", here {len(shown)} of them" if len(shown) < routes.total else ""
    title = f"keys that go to another key group: {routes.total:,}{listed} (- is by hash)"
    return _titled(title, shown)


def _titled(title: str, rows: Sequence[object]) -> list[RenderableType]:
    return [section(title, record_table(rows))] if rows else []
