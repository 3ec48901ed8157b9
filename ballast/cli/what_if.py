"""``ballast what-if``: compares a plan for today with one for other nodes or another load.

The input is a problem folder, or the newest snapshot of a job, which is read without a JVM. The
command writes only the picture of ``--picture``.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ballast.cli.bars import ClusterLoads, load_picture
from ballast.cli.progress import ProgressLine, SweepProgress, print_message, show_progress
from ballast.cli.render import print_json, section, text_table, title_of
from ballast.cli.targets import Target, read_target
from ballast.cli.terminal import print_parts
from ballast.contracts.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import RenderableType

    from solvers.model.budget import Budget
    from solvers.model.problem import Problem
    from solvers.model.result import Result
    from solvers.model.stop import Stop
    from solvers.planner.frontier import FrontierPoint
    from solvers.planner.what_if_problem import WhatIfQuestion

EXIT_INFEASIBLE = 3
DEFAULT_SECONDS = 5.0
NODES_SHOWN = 40
MOVES_SHOWN = 20
FRONTIER_POINTS = 8
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
    add(
        "--load-of", metavar="TIME_OR_RUN",
        help="the load up to a time (2026-11-14T18:00, UTC), or that an earlier run of the job saw",
    )  # fmt: skip
    add("--hold", type=float, metavar="PERCENT", help="how many nodes hold the load below this")
    for limit in ("moves", "bytes", "pause-s"):
        add(f"--{limit}", metavar="LIMIT", help=f"budget, a number or {NO_LIMIT}; else as it is")
    add("--objective", choices=("balance", "joint"), help="else as it is")
    add("--method", help="else as it is")
    add("--frontier", action="store_true", help="also what each budget of moves would buy")
    add("--picture", type=Path, metavar="FILE.svg", help="load per node, both side by side")
    add("--seconds", type=float, default=DEFAULT_SECONDS, help="for each of the two plans")
    add("--seed", type=int, default=0, help="for whatever is random")
    add("--json", action="store_true", help="for scripts")
    parser.set_defaults(run=run)


@dataclass(frozen=True, eq=False)
class WhatIfComparison:
    """The problem of today and the one of the question, with their results."""

    today: Target
    asked: Target
    results: tuple[Result, Result]
    held: tuple[int, float] | None = None
    """For ``--hold``: the number of nodes, and the load of the fullest as a share."""
    hold_pct: float | None = None
    front: list[FrontierPoint] = field(default_factory=list)

    @property
    def problems(self) -> tuple[Problem, Problem]:
        """Both problems, in the order of the results."""
        return self.today.problem, self.asked.problem


def run(args: argparse.Namespace) -> int:
    """Plan for today and for the question, and print both.

    Returns:
        The exit code: 3 where the question has no plan, else 0.
    """
    from solvers.model.stop import Stop

    stop, question = Stop(args.seconds), _question(args)
    _check_picture(args.picture)
    with show_progress(f"reading {args.target}") as line:
        answer = _compared(args, question, stop, line)
    if args.json:
        print_json(_as_dict(answer))
    else:
        print_parts(*_parts(answer))
    if args.picture is not None:
        args.picture.write_text(_picture(answer), encoding="utf-8")
        print_message(f"picture: {args.picture}")
    return 0 if answer.results[1].is_solved else EXIT_INFEASIBLE


def _compared(
    args: argparse.Namespace, question: WhatIfQuestion, stop: Stop, line: ProgressLine
) -> WhatIfComparison:
    """Plan for today and for the question."""
    from solvers.planner.what_if_problem import apply_question, nodes_that_hold, with_load_of

    today = _chosen(read_target(args.target), args)
    problem = today.problem
    if args.load_of is not None:
        problem = with_load_of(problem, read_target(args.target, args.load_of).problem)
    asked = apply_question(problem, question)
    then = replace(today, problem=asked, inputs=today.inputs.with_load_of(today.problem, asked))
    held = None if args.hold is None else nodes_that_hold(then.problem, args.hold / 100.0)
    results = (
        _planned("today", today, stop, args.seed, line),
        _planned("what is asked", then, stop, args.seed, line),
    )
    front = _frontier(then, stop, args.seed, line) if args.frontier else []
    return WhatIfComparison(today, then, results, held, args.hold, front)


def _check_picture(path: Path | None) -> None:
    """Check the path before the solvers run, so that a wrong path fails at once."""
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        raise InvalidInput(f"--picture {path} cannot be written", remedy="name a file")


def _picture(answer: WhatIfComparison) -> str:
    from solvers.planner.what_if_figures import planned_nodes

    titles = ("Today: load per node, % of capacity", "Asked: load per node, % of capacity")
    return load_picture(
        [
            ClusterLoads(title, planned_nodes(problem, result))
            for title, problem, result in zip(titles, answer.problems, answer.results, strict=True)
            if result.is_solved
        ]
    )


def _frontier(target: Target, stop: Stop, seed: int, line: ProgressLine) -> list[FrontierPoint]:
    from solvers.planner.frontier import SweepOptions, sweep
    from solvers.planner.registry import AUTO

    # A sweep plans by ``auto``, which takes the parameters of each method by name.
    is_named = target.method == AUTO or not target.params
    params = target.params if is_named else {target.method: target.params}
    options = SweepOptions(seed, FRONTIER_POINTS, params, target.objective, target.precision)
    line.begin("sweeping the budget of moves", FRONTIER_POINTS)
    return sweep(target.problem, target.budget, "moves", stop, options, SweepProgress(line))


def _planned(name: str, target: Target, stop: Stop, seed: int, line: ProgressLine) -> Result:
    from solvers.planner.allocation import AllocationOptions, allocate

    problem = target.problem
    size = f"{problem.n_key_groups} key groups on {problem.n_nodes} nodes"
    line.begin(f"planning for {name}: {size}, at most {stop.seconds:g} s")
    options = AllocationOptions(
        seed, target.method, target.params, inputs=target.inputs, precision=target.precision
    )
    result = allocate(target.objective, problem, target.budget, stop, options).result
    line.step(f"{name}: {result.status.value} by {result.method} in {result.seconds:.1f} s")
    return result


def _question(args: argparse.Namespace) -> WhatIfQuestion:
    from solvers.planner.what_if_arguments import parse_factors, parse_pairs, split_names
    from solvers.planner.what_if_problem import WhatIfQuestion

    return WhatIfQuestion(
        gone=split_names(args.without),
        leaving=split_names(args.drain),
        added=args.add,
        resized=parse_factors("--resize", args.resize),
        scaled=parse_factors("--scale", args.scale),
        racks=parse_pairs("--rack", args.rack, "NODE=RACK, such as node-1=rack-2"),
    )


def _chosen(target: Target, args: argparse.Namespace) -> Target:
    """Return the target with the budget, objective and method of the command line."""
    from solvers.model.budget import Budget
    from solvers.planner.what_if_arguments import parse_limit

    default: Budget = target.budget
    budget = Budget(
        moves=parse_limit("--moves", args.moves, default.moves, int),
        bytes=parse_limit("--bytes", args.bytes, default.bytes, int),
        pause_s=parse_limit("--pause-s", args.pause_s, default.pause_s, float),
    )
    kind = args.objective or target.objective.kind
    objective = replace(target.objective, kind=kind)
    method = args.method or ("auto" if args.objective else target.method)
    is_other = kind != target.objective.kind
    known: Mapping[str, Any] = {} if is_other else target.params
    params = known if method == "auto" else known.get(method, {})
    return replace(target, budget=budget, objective=objective, method=method, params=params)


def _as_dict(answer: WhatIfComparison) -> dict[str, Any]:
    from solvers.planner.what_if_figures import planned_moves, planned_nodes, result_figures

    (now, then), (plan, asked) = answer.problems, answer.results
    fields: dict[str, Any] = {
        "today": result_figures(now, plan),
        "asked": result_figures(then, asked),
        "asked_reason": asked.reason,
        "today_nodes": planned_nodes(now, plan),
        "asked_nodes": planned_nodes(then, asked),
        "asked_moves": planned_moves(then, asked),
        "frontier": [point.to_dict() for point in answer.front],
    }
    if answer.held is not None:
        fields["hold"] = {"nodes": answer.held[0], "fullest_node_pct": 100.0 * answer.held[1]}
    return fields


def _parts(answer: WhatIfComparison) -> list[RenderableType]:
    from solvers.planner.what_if_figures import result_figures

    now, then = (
        asdict(figures) for figures in map(result_figures, answer.problems, answer.results)
    )
    rows = [[title_of(name), now[name], then[name]] for name in now]
    parts: list[RenderableType] = [text_table(("figure", "today", "asked"), rows)]
    if answer.results[1].is_solved:
        parts += _plan_parts(answer.asked.problem, answer.results[1])
    else:
        parts.append(f"what is asked has no plan: {answer.results[1].reason}")
    if answer.held is not None:
        parts.append(
            f"{answer.held[0]} nodes hold the load at or below {answer.hold_pct:g} %: the fullest "
            f"would be at {100.0 * answer.held[1]:.1f} %, if moves were free"
        )
    if answer.front:
        parts.append(_front_part(answer.front))
    return [*parts, "Nothing was changed."]


def _plan_parts(problem: Problem, result: Result) -> list[RenderableType]:
    from solvers.planner.what_if_figures import planned_moves, planned_nodes
    from solvers.rules.rule_text import rule_report

    tables = (
        (("node", "state", "load now, %", "with the plan, %"), planned_nodes(problem, result),
         NODES_SHOWN, "nodes"),
        (("key group", "from", "to", "bytes"), planned_moves(problem, result),
         MOVES_SHOWN, "moves"),
    )  # fmt: skip
    parts: list[RenderableType] = []
    rules = rule_report(problem, result.assignment).text
    if rules is not None:
        lines = "\n".join(f"  {rule}" for rule in rules.splitlines())
        parts.append(section("Rules of the policy", lines))
    for headers, rows, most, what in tables:
        if rows:
            parts.append(text_table(headers, [list(astuple(row)) for row in rows[:most]]))
        if len(rows) > most:
            parts.append(f"and {len(rows) - most} more {what} (--json has them all)")
    return parts


def _front_part(points: list[FrontierPoint]) -> RenderableType:
    columns = ("limit", "load_distance_pct", "bound_pct", "moves", "bytes", "status", "on_front")
    rows = [[point.to_dict()[name] for name in columns] for point in points]
    headers = ("moves allowed", *map(title_of, columns[1:]))
    return section("What each budget of moves buys (- is no limit)", text_table(headers, rows))
