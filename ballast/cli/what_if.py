"""``ballast what-if``: the same job on other nodes or with another load, beside what it is today.

Reads a problem folder or a job's newest snapshot, without a JVM, and writes nothing anywhere.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ballast.cli.render import text_table, to_json
from ballast.cli.targets import Target, read_target
from ballast.contracts.errors import InvalidInput

if TYPE_CHECKING:
    from solvers import Budget, Problem, Result, Stop
    from solvers.what_if import Question

EXIT_INFEASIBLE = 3
DEFAULT_SECONDS = 5.0
NODES_SHOWN = 40
NO_LIMIT = "none"
EXAMPLE = "example: ballast what-if flights --without node-1,node-2 --scale '*=1.3' --moves none"


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "what-if",
        help="what a plan would be on other nodes or with another load",
        description="Ask what a plan would be if nodes or load were different. Changes nothing.",
        epilog=EXAMPLE,
    )
    add = parser.add_argument
    add("target", metavar="FOLDER_OR_JOB", help="a problem folder, or a job")
    add("--without", default="", metavar="NODE,...", help="nodes that are gone at once")
    add("--drain", default="", metavar="NODE,...", help="nodes that leave within the budget")
    add("--add", type=int, default=0, metavar="N", help="nodes more, of the typical capacity")
    add("--resize", action="append", default=[], metavar="NODE=FACTOR", help="another capacity")
    add(
        "--scale", action="append", default=[], metavar="OPERATOR=FACTOR",
        help="another load, of one operator or of all (*=1.5)",
    )  # fmt: skip
    add("--load-of", metavar="RUN_ID", help="the load that an earlier run of the job saw")
    add("--hold", type=float, metavar="PERCENT", help="how many nodes hold the load below this")
    for limit in ("moves", "bytes", "pause-s"):
        add(f"--{limit}", metavar="LIMIT", help=f"budget, a number or {NO_LIMIT}; else as it is")
    add("--objective", choices=("balance", "joint"), help="else as it is")
    add("--method", help="else as it is")
    add("--seconds", type=float, default=DEFAULT_SECONDS, help="for each of the two plans")
    add("--seed", type=int, default=0, help="for whatever is random")
    add("--json", action="store_true", help="for scripts")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Plan for today and for what is asked; show both. Exit 3 where what is asked has no plan."""
    from solvers import Stop
    from solvers.what_if import asked, nodes_that_hold, with_load_of

    stop, question = Stop(args.seconds), _question(args)
    today = _chosen(read_target(args.target), args)
    problem = today.problem
    if args.load_of is not None:
        problem = with_load_of(problem, read_target(args.target, args.load_of).problem)
    problem = asked(problem, question)
    held = None if args.hold is None else nodes_that_hold(problem, args.hold / 100.0)
    results = [
        _planned("today", today, stop, args.seed),
        _planned("what is asked", replace(today, problem=problem), stop, args.seed),
    ]
    if args.json:
        print(to_json(_as_dict(today, problem, results, held)))
    else:
        print(_text(today.problem, problem, results, held, args.hold))
    return 0 if results[1].is_solved else EXIT_INFEASIBLE


def _planned(name: str, target: Target, stop: Stop, seed: int) -> Result:
    """Plan, and say on standard error what is being done: it takes a while."""
    from solvers.planning import plan_for

    count = target.problem.n_key_groups
    print(f"planning for {name}: {count} key groups, at most {stop.seconds:g} s", file=sys.stderr,
          flush=True)  # fmt: skip
    result = plan_for(
        target.objective, target.problem, target.budget, stop, seed, target.method, target.params
    ).result
    print(f"{result.status.value} by {result.method} in {result.seconds:.1f} s", file=sys.stderr)
    return result


def _question(args: argparse.Namespace) -> Question:
    from solvers.what_if import Question

    return Question(
        gone=_names(args.without),
        leaving=_names(args.drain),
        added=args.add,
        resized=_factors("--resize", args.resize),
        scaled=_factors("--scale", args.scale),
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _factors(option: str, words: Sequence[str]) -> dict[str, float]:
    factors: dict[str, float] = {}
    for word in words:
        name, is_pair, number = word.rpartition("=")
        try:
            factors[name] = float(number)
        except ValueError:
            is_pair = ""
        if not is_pair or not name:
            raise InvalidInput(f"{option} {word!r}", allowed="NAME=FACTOR, such as node-1=2")
    return factors


def _chosen(target: Target, args: argparse.Namespace) -> Target:
    """The target with what the command line says of budget, objective and method."""
    from solvers import Budget
    from solvers.objective import Objective

    had: Budget = target.budget
    budget = Budget(
        moves=_limit("--moves", args.moves, had.moves, int),
        bytes=_limit("--bytes", args.bytes, had.bytes, int),
        pause_s=_limit("--pause-s", args.pause_s, had.pause_s, float),
    )
    kind = args.objective or target.objective.kind
    objective = Objective(kind, target.objective.max_load_distance)
    method = args.method or ("auto" if args.objective else target.method)
    params = target.params if method == "auto" else target.params.get(method, {})
    return Target(target.problem, budget, objective, method, params)


def _limit(option: str, word: str | None, had: Any, kind: type[int] | type[float]) -> Any:
    if word is None:
        return had
    if word == NO_LIMIT:
        return None
    try:
        return kind(word)
    except ValueError as error:
        raise InvalidInput(f"{option} {word!r}", allowed=f"a number or {NO_LIMIT}") from error


def _figures(problem: Problem, result: Result) -> dict[str, Any]:
    return {
        "nodes": int(problem.staying.sum()),
        "load_distance_before_pct": result.load_distance_before,
        "load_distance_pct": result.load_distance if result.is_solved else None,
        "bound_pct": result.bound,
        "fullest_node_before_pct": _fullest(problem, problem.current),
        "fullest_node_pct": _fullest(problem, result.assignment) if result.is_solved else None,
        "moves": result.moves,
        "forced_moves": result.forced_moves,
        "bytes": result.bytes + result.forced_bytes,
        "pause_s": result.pause_s,
        "left_on_draining_pct": result.draining_load,
        "traffic_within_nodes_before_pct": result.collocation_factor_before,
        "traffic_within_nodes_pct": result.collocation_factor if result.is_solved else None,
        "status": result.status.value,
        "method": result.method,
    }


def _fullest(problem: Problem, assignment: Any) -> float:
    from solvers.metrics import node_loads

    loads = node_loads(problem, assignment)[problem.staying]
    return 100.0 * float(loads.max(initial=0.0))


def _nodes(problem: Problem, result: Result) -> list[dict[str, Any]]:
    from solvers.metrics import node_loads

    before = 100.0 * node_loads(problem, problem.current).max(axis=1)
    after = 100.0 * node_loads(problem, result.assignment).max(axis=1)
    return [
        {
            "node_id": name,
            "state": problem.node_state[i],
            "load_before_pct": float(before[i]),
            "load_pct": float(after[i]),
        }
        for i, name in enumerate(problem.node_ids)
    ]


def _as_dict(
    today: Target, problem: Problem, results: Sequence[Result], held: tuple[int, float] | None
) -> dict[str, Any]:
    said: dict[str, Any] = {
        "today": _figures(today.problem, results[0]),
        "asked": _figures(problem, results[1]),
        "asked_reason": results[1].reason,
        "asked_nodes": _nodes(problem, results[1]),
    }
    if held is not None:
        said["hold"] = {"nodes": held[0], "fullest_node_pct": 100.0 * held[1]}
    return said


def _text(
    today: Problem,
    problem: Problem,
    results: Sequence[Result],
    held: tuple[int, float] | None,
    hold: float | None,
) -> str:
    now, then = _figures(today, results[0]), _figures(problem, results[1])
    rows = [[name.replace("_", " "), now[name], then[name]] for name in now]
    parts = [text_table(("figure", "today", "asked"), rows)]
    if results[1].is_solved:
        nodes = _nodes(problem, results[1])
        shown = [list(node.values()) for node in nodes[:NODES_SHOWN]]
        parts.append(text_table(("node", "state", "load now, %", "with the plan, %"), shown))
        if len(nodes) > NODES_SHOWN:
            parts.append(f"and {len(nodes) - NODES_SHOWN} more nodes (--json has them all)")
    else:
        parts.append(f"what is asked has no plan: {results[1].reason}")
    if held is not None:
        parts.append(
            f"{held[0]} nodes hold the load at or below {hold:g} %: the fullest would be at "
            f"{100.0 * held[1]:.1f} %, if moves were free"
        )
    parts.append("Nothing was changed.")
    return "\n\n".join(parts)
