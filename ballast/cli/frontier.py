"""``ballast frontier``: shows the load distance that each budget buys.

The input is a problem folder, or the newest snapshot of a job, which is read without a JVM. Plans
have the objective and the parameters of the folder or the policy. The command writes the picture
and nothing else.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ballast.cli.chart import BOUND, LINE, MUTED, Chart, Series, to_svg
from ballast.cli.progress import SweepProgress, limit_text, print_message, show_progress
from ballast.cli.render import print_json, section, text_table, title_of
from ballast.cli.targets import Target, read_target
from ballast.cli.terminal import print_parts
from ballast.contracts.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import RenderableType

    from solvers.planner.frontier import FrontierPoint, Unit

EXIT_INFEASIBLE = 3
DEFAULT_SECONDS = 30.0
TABLE = (
    "limit", "load_distance_pct", "bound_pct", "moves", "bytes", "pause_s", "status", "method",
    "on_front",
)  # fmt: skip


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "frontier",
        help="what load distance each budget buys",
        description="Sweep the budget of moves and of bytes, and show what each buys.",
        epilog="example: ballast frontier flights --by moves --points 8 --seconds 20",
    )
    parser.add_argument("target", metavar="FOLDER_OR_JOB", help="a problem folder, or a job")
    parser.add_argument(
        "--by", choices=("moves", "bytes", "both"), default="both", help="what is swept"
    )
    parser.add_argument("--points", type=int, default=10, help="budgets of each sweep (default 10)")
    parser.add_argument(
        "--seconds", type=float, default=DEFAULT_SECONDS,
        help=f"time for all of them together (default {DEFAULT_SECONDS:g})",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="for whatever is random")
    parser.add_argument(
        "--picture", type=Path, metavar="FILE.svg", help="default: frontier-<name>.svg here"
    )
    parser.add_argument("--no-picture", action="store_true", help="write no picture")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="for scripts")
    output.add_argument("--csv", action="store_true", help="for spreadsheets")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Solve for each budget and print the points; return 3 where no budget has a plan."""
    from solvers.model.stop import Stop

    stop = Stop(args.seconds)
    picture = _picture_path(args)
    target = read_target(args.target)
    units: list[Unit] = ["moves", "bytes"] if args.by == "both" else [args.by]
    sweeps = _sweep_all(target, units, stop, args)
    if not any(point.result.is_solved for points in sweeps.values() for point in points):
        reason = next(iter(sweeps.values()))[0].result.reason
        print_message(f"infeasible: {reason}")
        return EXIT_INFEASIBLE
    rows = [point.to_dict() for points in sweeps.values() for point in points]
    if args.json:
        print_json({"target": args.target, "points": rows})
    elif args.csv:
        sys.stdout.write(_csv(rows))
    else:
        print_parts(*(_sweep_part(unit, points) for unit, points in sweeps.items()))
    if picture is not None:
        picture.write_text(to_svg(_charts(sweeps)), encoding="utf-8")
        print_message(f"picture: {picture}")
    return 0


def _sweep_all(
    target: Target, units: Sequence[Unit], stop: Any, args: argparse.Namespace
) -> dict[Unit, list[FrontierPoint]]:
    from solvers.model.stop import Stop
    from solvers.planner.frontier import SweepOptions, sweep

    share = Stop(stop.seconds / len(units))
    options = SweepOptions(
        args.seed, args.points, target.params, target.objective, target.precision
    )
    sweeps: dict[Unit, list[FrontierPoint]] = {}
    with show_progress(f"reading {args.target}") as line:
        for unit in units:
            line.begin(f"sweeping the budget of {unit}", args.points)
            sweeps[unit] = sweep(
                target.problem, target.budget, unit, share, options, SweepProgress(line)
            )
    return sweeps


def _picture_path(args: argparse.Namespace) -> Path | None:
    if args.no_picture:
        if args.picture is not None:
            raise InvalidInput("--picture and --no-picture contradict each other")
        return None
    path: Path = args.picture or Path(f"frontier-{Path(args.target).resolve().name}.svg")
    if path.is_dir() or not path.parent.is_dir():
        raise InvalidInput(f"--picture {path} cannot be written", remedy="name a file")
    return path


def _sweep_part(unit: Unit, points: Sequence[FrontierPoint]) -> RenderableType:
    from rich.console import Group

    from solvers.planner.frontier import recommended_point

    before = points[0].result.load_distance_before
    names = list(TABLE)
    if any(point.to_dict()["traffic_within_nodes_pct"] is not None for point in points):
        names.insert(2, "traffic_within_nodes_pct")
    rows = [[point.to_dict()[name] for name in names] for point in points]
    headers = (f"{unit} allowed", *map(title_of, names[1:]))
    title = f"Budget of {unit}; load distance now {before:.4g} % of the mean"
    lines = [
        f"{limit_text(point)} of {unit}: {point.result.reason}"
        for point in points
        if not point.result.is_solved
    ]
    choice = recommended_point(points)
    if choice is not None:
        lines.append(
            f"{choice.used:,} {unit} bring it to {choice.result.load_distance:.4g} %, "
            "95 % or more of what any budget here buys."
        )
    return Group(section(title, text_table(headers, rows)), *lines)


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _charts(sweeps: dict[Unit, list[FrontierPoint]]) -> list[Chart]:
    return [_chart(unit, points) for unit, points in sweeps.items()]


def _chart(unit: Unit, points: Sequence[FrontierPoint]) -> Chart:
    from solvers.planner.frontier import front

    solved = [point for point in points if point.result.is_solved]
    beaten = [point for point in solved if point.is_dominated]
    limited = sorted(
        (point.limit, point.result.bound) for point in solved
        if point.limit is not None and point.result.bound is not None
    )  # fmt: skip
    series = [
        Series("best found", [(p.used, p.result.load_distance) for p in front(points)], LINE),
        Series("proven bound", limited, BOUND, is_dashed=True),
    ]
    if beaten:
        places = [(p.used, p.result.load_distance) for p in beaten]
        series.append(Series("dominated", places, MUTED, is_line=False))
    label = "key groups moved" if unit == "moves" else "bytes of state moved"
    return Chart(f"Load distance against {unit}", label, "load distance, % of the mean", series)
