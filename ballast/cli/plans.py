"""``ballast plans``: list a job's plans, show one with its outcome, compare two, read the log."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ballast.cli.render import cell_text, text_table, to_json
from ballast.contracts import plan_text
from ballast.contracts.errors import InvalidInput, NotFound
from ballast.contracts.settings import Settings, check_job_name, load_settings
from ballast.readmodel.changes import (
    node_difference,
    node_plan,
    route_difference,
    weight_difference,
)
from ballast.readmodel.plans import JobHistory
from ballast.store.cache import TableCache
from ballast.store.plans import (
    read_acks,
    read_assignment,
    read_head,
    read_log,
    read_outcomes,
    read_plan,
    read_plans,
    read_region_acks,
    read_weights,
    versions_of,
)

Row = Any  # TRANSITION: typed records take its place
PLAN_FIGURES = (
    "objective", "method", "status", "reason", "scaling_reason", "weights_reason",
    "load_distance_before_pct", "load_distance_pct",
    "max_load_distance_pct", "trade", "traffic_weight", "load_weight",
    "traffic_saved_before_pct", "traffic_saved_pct", "bound_pct", "gap_pct", "moves", "bytes",
    "forced_moves", "forced_bytes", "pause_s", "routes", "rerouted_keys", "route_bytes",
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
    log = _command(commands, "log", "who did what to a job's plans, when and why", _log)
    log.add_argument("--limit", type=int, default=50, help="newest N events (default 50)")


EXAMPLES = {
    "list": "ballast plans list flights --limit 10",
    "show": "ballast plans show flights 3",
    "diff": "ballast plans diff flights 2 3",
    "log": "ballast plans log flights --json",
}


def _command(commands: Any, name: str, text: str, run: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=text, description=text.capitalize() + ".", epilog=f"example: {EXAMPLES[name]}"
    )
    parser.add_argument("job", metavar="JOB")
    parser.add_argument("--json", action="store_true", help="for scripts")
    parser.set_defaults(run=run)
    return parser


def plan_list(settings: Settings, job: str, limit: int) -> list[Row]:
    """The newest drafts, each with its version, if it has one, and the last event of its life."""
    log = read_log(settings, job)
    head = read_head(settings, job)
    versions = published_versions(settings, job)
    by_plan = {plan_id: version for version, plan_id in versions.items()}
    last_event = {row["plan_id"]: row["event"] for row in log if row["plan_id"]}
    return [
        {
            "version": by_plan.get(plan["plan_id"]),
            "in_force": bool(head and head.plan_id == plan["plan_id"]),
            "plan_id": plan["plan_id"],
            "created_at": plan["created_at"],
            "last_event": last_event.get(plan["plan_id"], "drafted"),
            "method": plan["method"],
            "load_distance_before_pct": plan["load_distance_before_pct"],
            "load_distance_pct": plan["load_distance_pct"],
            "gap_pct": plan["gap_pct"],
            "moves": plan["moves"],
            "bytes": plan["bytes"],
            "run_id": plan["run_id"],
        }
        for plan in read_plans(settings, job)[-limit:]
    ]


def published_versions(settings: Settings, job: str) -> dict[int, str]:
    """Plan id of every version; the head counts even where its log row is still missing."""
    return versions_of(read_log(settings, job), read_head(settings, job))


def plan_detail(settings: Settings, job: str, name: str | None) -> Row:
    """A plan with its moves, log, acknowledgements and outcome."""
    version, plan_id = resolve(settings, job, name)
    assignment = read_assignment(settings, job, plan_id)
    plan = read_plan(settings, job, plan_id)
    return {
        "job": job,
        "version": version,
        "plan": plan,
        "nodes": node_plan(JobHistory(TableCache(settings), job), plan),
        "assignment": assignment,
        "weights": read_weights(settings, job, plan_id),
        "moves": [row for row in assignment if row["node_id"] != row["previous_node_id"]],
        "log": [row for row in read_log(settings, job) if row["plan_id"] == plan_id],
        "acks": read_acks(settings, job, version) if version else [],
        "region_acks": read_region_acks(settings, job, version) if version else [],
        "outcomes": latest_outcomes(settings, job, version) if version else [],
    }


def latest_outcomes(settings: Settings, job: str, version: int) -> list[Row]:
    """The newest measurement of every figure of a version."""
    newest: dict[str, Row] = {}
    for row in read_outcomes(settings, job, version):
        newest[row["figure"]] = row
    return list(newest.values())


def plan_difference(settings: Settings, job: str, old: str, new: str | None) -> Row:
    """Where two plans differ: key groups, nodes, sizes of operators, keys with a route, weights."""
    groups = placement_difference(settings, job, old, new)
    history = JobHistory(TableCache(settings), job)
    named = resolve(settings, job, new)[1]
    routes = route_difference(history, old, named, ROUTES_SHOWN)
    return {
        "key_groups": groups,
        **node_difference(history, old, named),
        "rerouted_keys": routes["total"],
        "routes": routes["rows"],
        "weights": weight_difference(history, old, named),
    }


def placement_difference(settings: Settings, job: str, old: str, new: str | None) -> list[Row]:
    """Key groups that two plans place on different nodes."""
    before = _placement(settings, job, old)
    after = _placement(settings, job, new)
    return [
        {
            "operator_id": operator_id,
            "key_group": key_group,
            "old_node_id": before.get((operator_id, key_group)),
            "new_node_id": after.get((operator_id, key_group)),
        }
        for operator_id, key_group in sorted(before.keys() | after.keys())
        if before.get((operator_id, key_group)) != after.get((operator_id, key_group))
    ]


def resolve(settings: Settings, job: str, name: str | None) -> tuple[int | None, str]:
    """Version (None for a draft) and plan id of what a person named."""
    versions = published_versions(settings, job)
    if name is None:
        if not versions:
            raise NotFound(
                f"job {job} has no published plan", value=job,
                remedy=f"see drafts with `ballast plans list {job}`, reasons with "
                f"`ballast status {job}`",
            )  # fmt: skip
        newest = max(versions)
        return newest, versions[newest]
    by_text = {str(version): version for version in versions}
    if name in by_text:
        return by_text[name], versions[by_text[name]]
    by_plan = {plan_id: version for version, plan_id in versions.items()}
    drafts = {row["plan_id"] for row in read_plans(settings, job)}
    if name in drafts:
        return by_plan.get(name), name
    raise NotFound(
        f"job {job} has no version or plan {name!r}", value=name,
        allowed=f"versions {_span(versions)} or a plan id",
        remedy=f"see `ballast plans list {job}`",
    )  # fmt: skip


def _placement(settings: Settings, job: str, name: str | None) -> dict[tuple[str, int], str]:
    if name == "0":
        versions = published_versions(settings, job)
        if not versions:
            resolve(settings, job, None)
        first = read_assignment(settings, job, versions[min(versions)])
        return {(row["operator_id"], row["key_group"]): row["previous_node_id"] for row in first}
    _, plan_id = resolve(settings, job, name)
    rows = read_assignment(settings, job, plan_id)
    return {(row["operator_id"], row["key_group"]): row["node_id"] for row in rows}


def _span(versions: dict[int, str]) -> str:
    return f"{min(versions)} to {max(versions)}" if versions else "(none yet)"


def _limit(args: argparse.Namespace) -> int:
    if args.limit < 1:
        raise InvalidInput(f"--limit is {args.limit}", value=args.limit, allowed="1 or more")
    return int(args.limit)


def _log(args: argparse.Namespace) -> int:
    rows = read_log(load_settings(), check_job_name(args.job))[-_limit(args) :]
    if args.json:
        print(to_json(rows))
    elif rows:
        print(_section(rows, ("at", "event", "version", "plan_id", "actor", "reason")))
    else:
        print(f"nothing has happened to plans of job {args.job} yet")
    return 0


def _list(args: argparse.Namespace) -> int:
    rows = plan_list(load_settings(), check_job_name(args.job), _limit(args))
    if args.json:
        print(to_json(rows))
    elif rows:
        print(text_table(list(rows[0]), [list(row.values()) for row in rows]))
    else:
        print(f"job {args.job} has no plans yet; trigger reoptimize__{args.job} in Airflow")
    return 0


def _show(args: argparse.Namespace) -> int:
    detail = plan_detail(load_settings(), check_job_name(args.job), args.version)
    if args.json:
        print(to_json(detail))
        return 0
    plan = detail["plan"]
    version = detail["version"]
    named = f"version {version}" if version else "a draft that was not published"
    print(f"Job {detail['job']}, {named}, plan {plan['plan_id']}\n")
    width = max(len(name) for name in PLAN_FIGURES)
    for name in PLAN_FIGURES:
        print(f"  {name.ljust(width)}  {cell_text(plan.get(name))}")
    print("\n" + "\n".join(_in_words(plan)))
    _show_nodes(detail["nodes"])
    rows = detail["assignment"] if args.all else detail["moves"]
    print(f"\n{'Key groups' if args.all else 'Moves'} ({len(rows)})")
    print(_section(rows, ("operator_id", "key_group", "previous_node_id", "node_id",
                          "state_bytes")))  # fmt: skip
    if detail["weights"]:
        print("\nWeights of workers, in units of 0.1 %")
        print(_section(detail["weights"], ("region_id", "worker_id", "previous_weight", "weight",
                                           "state", "records_per_s", "reason")))  # fmt: skip
    print("\nTake-up")
    print(_section(detail["acks"], ("status", "batch_id", "moved_key_groups", "bytes_moved",
                                    "pause_ms", "acked_at", "reason")))  # fmt: skip
    if detail["region_acks"]:
        print("\nTake-up by ordered regions")
        print(_section(detail["region_acks"], ("region_id", "status", "acked_at", "reason")))
    print("\nOutcome: promised against measured")
    print(_section(detail["outcomes"], ("figure", "unit", "before", "promised", "measured",
                                        "windows", "measured_at")))  # fmt: skip
    print("\nLog")
    print(_section(detail["log"], ("at", "event", "actor", "reason")))
    return 0


def _show_nodes(nodes: Row | None) -> None:
    """What the plan does with nodes; nothing where it does not decide on them."""
    if nodes is None:
        return
    print(f"\nNodes: {cell_text(nodes['before'])} before, {cell_text(nodes['wanted'])} with the "
          f"plan; {nodes['reason']}")  # fmt: skip
    print(f"Bound by {nodes['binding']}; what would have changed it: {nodes['would_change']}")
    if nodes["changes"]:
        print(_table(nodes["changes"]))
    if nodes["spare_count"]:
        more = nodes["spare_count"] - len(nodes["spares"])
        print(f"Kept spare: {', '.join(nodes['spares'])}{f' and {more} more' if more else ''}")


def _in_words(plan: Row) -> list[str]:
    """What the solver's figures mean, and how it came to them."""
    quality = plan_text.quality_text(plan["bound_pct"], plan["gap_pct"])
    solved = f"solved by {plan['method']} in {plan['solver_seconds']:.1f} s"
    steps = plan_text.progress_text(json.loads(plan["trace_json"]))
    path = [f"Best load distance while it ran: {steps}."] if steps else []
    said = [plan_text.plan_reason(plan), f"This plan is {quality}; {solved}."]
    return [*said, *path, *_held_back(plan), *_advice(plan)]


def _held_back(plan: Row) -> list[str]:
    """What would have saved traffic and did not pay for its move."""
    found = json.loads(plan.get("held_back_json") or "[]")
    return [f"Held back: {line}." for line in plan_text.held_back_lines(found)]


def _advice(plan: Row) -> list[str]:
    """What another partitioning of operators would save; no plan can do it."""
    return [f"Advice: {line}." for line in (plan.get("advice") or "").splitlines()]


def _diff(args: argparse.Namespace) -> int:
    found = plan_difference(load_settings(), check_job_name(args.job), args.old, args.new)
    print(to_json(found) if args.json else "\n\n".join(_differences(found)))
    return 0


def _differences(found: Row) -> list[str]:
    """Nodes first: they say why so many key groups are elsewhere."""
    before, after = found["nodes_in_use"]
    parts = [f"nodes in use: {before} and {after}; in another state: {len(found['nodes'])}"]
    parts += [_table(found[name]) for name in ("nodes", "operators") if found[name]]
    if found["rerouted_keys"]:
        shown = found["routes"][:ROUTES_IN_TEXT]
        listed = f", here {len(shown)} of them" if len(shown) < found["rerouted_keys"] else ""
        parts.append(f"keys that go to another key group: {found['rerouted_keys']:,}{listed} "
                     f"(- is by hash)\n\n{_table(shown)}")  # fmt: skip
    if found["weights"]:
        parts.append(f"workers of ordered regions with another weight, in units of 0.1 %\n\n"
                     f"{_table(found['weights'])}")  # fmt: skip
    groups = found["key_groups"]
    parts.append(f"{len(groups)} key groups differ" if groups else "no key group differs")
    return [*parts, _table(groups)] if groups else parts


def _table(rows: list[Row]) -> str:
    return text_table(list(rows[0]), [list(row.values()) for row in rows])


def _section(rows: list[Row], columns: tuple[str, ...]) -> str:
    if not rows:
        return "  (none yet)"
    return text_table(columns, [[row[column] for column in columns] for row in rows])
