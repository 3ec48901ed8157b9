"""``ballast compare``: every method that fits, on one problem with the same budget and time.

The input is a problem folder, or the newest snapshot of a job, which is read without a JVM. Each
plan is verified. The command writes only the picture of ``--picture``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ballast.cli.compare_chart import MethodFigures, compare_picture
from ballast.cli.progress import print_message, show_progress
from ballast.cli.render import print_json, text_table, title_of
from ballast.cli.targets import Target, read_target
from ballast.cli.terminal import print_parts
from ballast.contracts.errors import InvalidInput, VerificationFailed

if TYPE_CHECKING:
    from rich.console import RenderableType

    from solvers.model.stop import Stop
    from solvers.planner.method_trials import MethodTrial

EXIT_INFEASIBLE = 3
DEFAULT_SECONDS = 3.0
COLUMNS = (
    "method", "from", "load_distance_pct", "traffic_within_nodes_pct", "moves", "bytes", "pause_s",
    "bound_pct", "seconds", "verified",
)  # fmt: skip


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "compare",
        help="every method that fits, on one problem",
        description="Plan with every method that fits, each with the same budget and time, and "
        "verify each plan. Changes nothing.",
        epilog="example: ballast compare flights --seconds 3 --picture compare.svg",
    )
    add = parser.add_argument
    add("target", metavar="FOLDER_OR_JOB", help="a problem folder, or a job")
    add("--objective", choices=("balance", "joint"), help="else as it is")
    add("--seconds", type=float, default=DEFAULT_SECONDS, help="for each method (%(default)g)")
    add("--seed", type=int, default=0, help="for whatever is random")
    add("--picture", type=Path, metavar="FILE.svg", help="the figures as bars")
    add("--json", action="store_true", help="for scripts")
    parser.set_defaults(run=run)


@dataclass(frozen=True, eq=False)
class VerifiedTrial:
    """A method's plan and the promises that it breaks."""

    trial: MethodTrial
    violations: tuple[str, ...] = ()

    @property
    def row(self) -> dict[str, Any]:
        """The figures by the names of ``COLUMNS``, with status, reason and note."""
        trial, result = self.trial, self.trial.result
        row: dict[str, Any] = dict.fromkeys(COLUMNS)
        row |= {"method": trial.name, "from": trial.entry.paper or "Ballast", "note": trial.note}
        if result is None:
            return row
        row |= {"status": result.status.value, "reason": result.reason, "seconds": result.seconds}
        if not result.is_solved:
            return row
        return row | {
            "found_by": result.method,
            "load_distance_pct": result.load_distance,
            "traffic_within_nodes_pct": result.collocation_factor,
            "moves": result.moves,
            "bytes": result.bytes,
            "pause_s": result.pause_s,
            "bound_pct": result.bound,
            "verified": not self.violations,
            "violations": list(self.violations),
        }


def run(args: argparse.Namespace) -> int:
    """Plan with every method and print the figures.

    Returns:
        The exit code: 3 where no method has a plan, else 0.

    Raises:
        VerificationFailed: a plan breaks a promise. The table is printed first.
    """
    from solvers.model.stop import Stop

    stop = Stop(args.seconds)
    if args.picture is not None and (args.picture.is_dir() or not args.picture.parent.is_dir()):
        raise InvalidInput(f"--picture {args.picture} cannot be written", remedy="name a file")
    target = read_target(args.target)
    kind = args.objective or target.objective.kind
    target = replace(target, objective=replace(target.objective, kind=kind))
    found = [_verified(target, trial) for trial in _trials(target, stop, args.seed)]
    if args.json:
        print_json(_as_dict(args.target, target, found))
    else:
        print_parts(*_parts(target, found))
    if args.picture is not None:
        args.picture.write_text(_picture(target, found), encoding="utf-8")
        print_message(f"picture: {args.picture}")
    broken = [each for each in found if each.violations]
    if broken:
        first = broken[0]
        raise VerificationFailed(
            f"the plan of {first.trial.name} breaks its promises: {first.violations[0]}; to fix "
            "it: report this as a bug of the method"
        )
    is_solved = any(each.trial.result and each.trial.result.is_solved for each in found)
    return 0 if is_solved else EXIT_INFEASIBLE


def _trials(target: Target, stop: Stop, seed: int) -> Sequence[MethodTrial]:
    from solvers.planner.allocation import AllocationOptions
    from solvers.planner.method_trials import TrialRequest, try_methods

    options = AllocationOptions(
        seed, params=target.params, inputs=target.inputs, precision=target.precision
    )
    request = TrialRequest(target.objective, target.problem, target.budget, stop, options)
    trials = []
    with show_progress(f"planning with every method, {stop.seconds:g} s each") as line:
        for trial in try_methods(request):
            result = trial.result
            text = f"not run, {trial.note}" if result is None else f"{result.seconds:.1f} s"
            line.step(f"{trial.name}: {text}")
            trials.append(trial)
    return trials


def _verified(target: Target, trial: MethodTrial) -> VerifiedTrial:
    from solvers.verify.assignment import verify

    problem, result = target.problem, trial.result
    if result is None or not result.is_solved:
        return VerifiedTrial(trial)
    nodes = [problem.node_ids[node] for node in result.assignment.tolist()]
    found = verify(
        problem, target.budget, (problem.key_group_ids, nodes), result.to_dict(), target.objective
    )
    return VerifiedTrial(trial, tuple(map(str, found)))


def _as_dict(name: str, target: Target, found: Sequence[VerifiedTrial]) -> dict[str, Any]:
    budget = target.budget
    return {
        "target": name,
        "objective": target.objective.kind,
        "budget": {"moves": budget.moves, "bytes": budget.bytes, "pause_s": budget.pause_s},
        "load_distance_before_pct": _before(found)[0],
        "traffic_within_nodes_before_pct": _before(found)[1],
        "methods": [each.row for each in found],
    }


def _before(found: Sequence[VerifiedTrial]) -> tuple[float | None, float | None]:
    """Load distance and traffic within nodes without a plan; None if no method ran."""
    results = [each.trial.result for each in found if each.trial.result is not None]
    if not results:
        return None, None
    return results[0].load_distance_before, results[0].collocation_factor_before


def _parts(target: Target, found: Sequence[VerifiedTrial]) -> list[RenderableType]:
    rows = [each.row for each in found if each.trial.result is not None]
    distance, traffic = _before(found)
    parts: list[RenderableType] = [_head(target, distance, traffic)]
    if rows:
        headers = [title_of(name) for name in COLUMNS]
        parts.append(text_table(headers, [[row[name] for name in COLUMNS] for row in rows]))
    for row in rows:
        said = "; ".join(part for part in (row["note"], row["reason"]) if part)
        if said:
            parts.append(f"{row['method']}: {said}")
    unfit = [f"{each.trial.name} {each.trial.note}" for each in found if each.trial.result is None]
    if unfit:
        parts.append("These do not fit:\n" + "\n".join(unfit))
    return [*parts, "Nothing was changed."]


def _head(target: Target, distance: float | None, traffic: float | None) -> str:
    budget, problem = target.budget, target.problem
    limits = [
        f"{value:,} {unit}"
        for value, unit in (
            (budget.moves, "moves"), (budget.bytes, "bytes"), (budget.pause_s, "s of pause"),
        )
        if value is not None
    ]  # fmt: skip
    before = "" if distance is None else f"; load distance now {distance:.4g} %"
    within = "" if traffic is None else f", traffic within nodes {traffic:.4g} %"
    return (
        f"{problem.n_key_groups:,} key groups on {problem.n_nodes} nodes, objective "
        f"{target.objective.kind}, budget {', '.join(limits) or 'without limits'}{before}{within}"
    )


def _picture(target: Target, found: Sequence[VerifiedTrial]) -> str:
    figures = [
        MethodFigures(
            each.trial.name,
            each.trial.entry.paper,
            result.load_distance,
            result.bound,
            result.collocation_factor,
            result.moves,
            result.bytes,
            result.seconds,
        )
        for each in found
        if (result := each.trial.result) is not None and result.is_solved
    ]
    return compare_picture(_head(target, *_before(found)), figures)
