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
    add("--rack", action="append", default=[], metavar="NODE=RACK", help="another rack")
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
    from solvers.what_if_answer import factors, names, pairs

    return Question(
        gone=names(args.without),
        leaving=names(args.drain),
        added=args.add,
        resized=factors("--resize", args.resize),
        scaled=factors("--scale", args.scale),
        racks=pairs("--rack", args.rack, "NODE=RACK, such as node-1=rack-2"),
    )


def _chosen(target: Target, args: argparse.Namespace) -> Target:
    """The target with what the command line says of budget, objective and method."""
    from solvers import Budget
    from solvers.objective import Objective
    from solvers.what_if_answer import limit

    had: Budget = target.budget
    budget = Budget(
        moves=limit("--moves", args.moves, had.moves, int),
        bytes=limit("--bytes", args.bytes, had.bytes, int),
        pause_s=limit("--pause-s", args.pause_s, had.pause_s, float),
    )
    kind = args.objective or target.objective.kind
    objective = Objective(kind, target.objective.max_load_distance)
    method = args.method or ("auto" if args.objective else target.method)
    params = target.params if method == "auto" else target.params.get(method, {})
    return Target(target.problem, budget, objective, method, params)


def _as_dict(
    today: Target, problem: Problem, results: Sequence[Result], held: tuple[int, float] | None
) -> dict[str, Any]:
    from solvers.what_if_answer import figures, nodes

    said: dict[str, Any] = {
        "today": figures(today.problem, results[0]),
        "asked": figures(problem, results[1]),
        "asked_reason": results[1].reason,
        "asked_nodes": nodes(problem, results[1]),
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
    from solvers.what_if_answer import figures, nodes

    now, then = figures(today, results[0]), figures(problem, results[1])
    rows = [[name.replace("_", " "), now[name], then[name]] for name in now]
    parts = [text_table(("figure", "today", "asked"), rows)]
    if results[1].is_solved:
        rows_of_nodes = [list(node.values()) for node in nodes(problem, results[1])]
        shown = rows_of_nodes[:NODES_SHOWN]
        parts.append(text_table(("node", "state", "load now, %", "with the plan, %"), shown))
        if len(rows_of_nodes) > NODES_SHOWN:
            parts.append(f"and {len(rows_of_nodes) - NODES_SHOWN} more nodes (--json has them all)")
    else:
        parts.append(f"what is asked has no plan: {results[1].reason}")
    if held is not None:
        parts.append(
            f"{held[0]} nodes hold the load at or below {hold:g} %: the fullest would be at "
            f"{100.0 * held[1]:.1f} %, if moves were free"
        )
    parts.append("Nothing was changed.")
    return "\n\n".join(parts)
