"""``ballast solve`` and ``ballast verify``: solve a problem folder, check a result folder.

The solvers are imported when a command runs, so that other commands start faster.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ballast.cli.convert import method_params, to_objective, to_problem
from ballast.cli.progress import print_message, show_progress
from ballast.cli.terminal import print_parts
from ballast.contracts import plan_text
from ballast.contracts.errors import VerificationFailed

if TYPE_CHECKING:
    from ballast.problems import ProblemFolder, ResultFolder
    from solvers.model.budget import Budget
    from solvers.model.objective import Objective
    from solvers.model.problem import Problem
    from solvers.model.result import Result
    from solvers.model.stop import Stop
    from solvers.verify.violation import Violation

EXIT_SOLVED = 0
EXIT_INFEASIBLE = 3
EXIT_BROKEN_PROMISE = VerificationFailed.exit_code
DEFAULT_SECONDS = 10.0
PROMISED = ("status", "method", "load_distance", "bound", "gap", "moves", "bytes")
"""The figures that a solved result must have: a missing figure could not be checked."""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the two commands."""
    solve = subparsers.add_parser(
        "solve",
        help="solve a problem folder",
        description="Solve a problem folder.",
        epilog="example: ballast solve problem --seconds 5 --out result",
    )
    solve.add_argument("folder", metavar="FOLDER", help="the problem folder")
    solve.add_argument("--method", default="auto", help="auto (default), or one method by name")
    solve.add_argument(
        "--seconds", type=float, default=None, help=f"time limit (default {DEFAULT_SECONDS:g})"
    )
    solve.add_argument(
        "--steps",
        type=int,
        default=None,
        help="stop after so many steps instead of by the clock, which is repeatable",
    )
    solve.add_argument("--seed", type=int, default=0, help="for whatever is random")
    solve.add_argument("--out", required=True, metavar="OUT", help="the result folder to write")
    solve.add_argument("--json", action="store_true", help="print the result as JSON")
    solve.set_defaults(run=run_solve)

    verify = subparsers.add_parser(
        "verify",
        help="check a result folder",
        description="Check every promise of a result.",
        epilog="example: ballast verify problem result",
    )
    verify.add_argument("folder", metavar="FOLDER", help="the problem folder")
    verify.add_argument("out", metavar="OUT", help="the result folder")
    verify.add_argument("--json", action="store_true", help="print the findings as JSON")
    verify.set_defaults(run=run_verify)


def run_solve(args: argparse.Namespace) -> int:
    """Solve FOLDER, write the result folder OUT, and return the exit code.

    Raises:
        ProblemError: the folder or OUT cannot be used; nothing has been written.
    """
    from ballast.problems import read_problem, write_result
    from ballast.problems.results import check_target
    from solvers.model.stop import Stop
    from solvers.planner.allocation import AllocationOptions, allocate

    stop = Stop(_seconds(args), args.steps)
    check_target(args.out)
    folder = read_problem(args.folder)
    objective = to_objective(folder)
    problem, budget = to_problem(folder)
    params = _params(folder, args.method)
    options = AllocationOptions(args.seed, args.method, params)
    with show_progress(f"solving {args.folder}{_limit_text(stop)}"):
        result = allocate(objective, problem, budget, stop, options).result
    figures = result.to_dict()
    write_result(args.out, figures, _assignment(folder, result))
    if args.json:
        print(json.dumps(figures, indent=2))
    else:
        print_parts(_summary(result, args.out))
    return EXIT_SOLVED if result.is_solved else EXIT_INFEASIBLE


def run_verify(args: argparse.Namespace) -> int:
    """Check OUT against FOLDER and print every promise that does not hold."""
    from ballast.problems import read_problem, read_result

    folder = read_problem(args.folder)
    problem, budget = to_problem(folder)
    result = read_result(args.out)
    violations = _violations(problem, budget, result, to_objective(folder))
    if args.json:
        findings = [{"promise": v.promise, "message": v.message} for v in violations]
        print(json.dumps({"ok": not violations, "violations": findings}, indent=2))
    elif violations:
        for violation in violations:
            print_message(str(violation))
    else:
        print_parts(f"{args.out}: every promise holds")
    return EXIT_BROKEN_PROMISE if violations else EXIT_SOLVED


def _seconds(args: argparse.Namespace) -> float | None:
    """Return the time limit; none by default with --steps, because a clock is not repeatable."""
    if args.seconds is not None:
        return float(args.seconds)
    return None if args.steps is not None else DEFAULT_SECONDS


def _limit_text(stop: Stop) -> str:
    return "" if stop.seconds is None else f", at most {stop.seconds:g} s"


def _params(folder: ProblemFolder, method: str) -> dict[str, Any]:
    """Return the parameters of the method; with ``auto``, those of all methods by name."""
    params = method_params(folder)
    return params if method == "auto" else dict(params.get(method, {}))


def _assignment(folder: ProblemFolder, result: Result) -> tuple[Any, Any] | None:
    """Return the columns of assignment.parquet; ids have the type of the problem's files."""
    import pyarrow as pa

    if not result.is_solved:
        return None
    nodes = folder.nodes.node_ids.take(pa.array(result.assignment))
    groups = folder.key_groups.key_group_ids
    return groups.cast(folder.key_groups.id_type), nodes.cast(folder.nodes.id_type)


def _violations(
    problem: Problem, budget: Budget, result: ResultFolder, objective: Objective
) -> list[Violation]:
    from solvers.verify.assignment import verify
    from solvers.verify.infeasible import verify_infeasible
    from solvers.verify.violation import Violation

    status = result.figures.get("status")
    if result.assignment is not None:
        missing = [name for name in PROMISED if result.figures.get(name) is None]
        absent = [Violation(name, "result.json does not say it") for name in missing]
        return absent + verify(problem, budget, result.assignment, result.figures, objective)
    if status == "infeasible":
        return verify_infeasible(problem, budget)
    return [Violation("assignment", f"assignment.parquet is missing, and the status is {status!r}")]


def _traffic(result: Result) -> str:
    before, after = result.collocation_factor_before, result.collocation_factor
    if before is None or after is None:
        return ""
    most = result.collocation_bound
    bound = "" if most is None else f", no plan within the budget has more than {most:.2f} %"
    return f"traffic within nodes {before:.2f} % -> {after:.2f} %{bound}\n"


def _summary(result: Result, out: str) -> str:
    if not result.is_solved:
        return f"infeasible: {result.reason}"
    forced = f", {result.forced_moves} forced" if result.forced_moves else ""
    return (
        f"{result.status.value} by {result.method}: load distance "
        f"{result.load_distance_before:.4g} % -> {result.load_distance:.4g} %, "
        f"{plan_text.quality_text(result.bound or 0.0, result.gap or 0.0)}\n"
        f"{_traffic(result)}"
        f"{result.moves} moves{forced}, {result.bytes} bytes, pause {result.pause_s:.3g} s, "
        f"in {result.seconds:.2f} s -> {Path(out)}"
    )
