"""Ballast on 1,000,000 key groups and 10,000 nodes: load distance, bound, seconds, peak memory.

    python -m bench.rebalance.large [--runs 3] [--seconds 13] [--only 1%] [--scale 0.01] [--growth]

Each run is a process of its own and may take 15 s in all. The search has a limit of 13 s, because
its last steps take longer on a busy machine. Exit 1 where a requirement is not met. ``--scale``
shrinks all instances, for trying the program out; ``--growth`` adds the time to within 2 % of the
best found, from 1e4 to 1e6 key groups.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from bench.common.runner import short_parser
from bench.common.seeds import commit
from bench.rebalance.cells import LARGE_CAPACITIES, Cell, lognormal_cell, problem_of
from bench.rebalance.environments import ROOT

GROUPS, NODES = 1_000_000, 10_000
MEMORY_LIMIT = 2 * 1024**3
TIME_LIMIT_S = 15.0
WITHIN = 1.02
GROWTH_SIZES = (10_000, 100_000, 1_000_000)
GROWTH_SLACK = 2.0
KILL_S = 180.0


@dataclass(frozen=True)
class LargeRun:
    """One solve in a new process; ``peak_bytes`` is the memory of the whole process."""

    load_distance: float
    bound: float
    seconds: float
    peak_bytes: int
    before: float
    violations: int
    method: str
    within_s: float  # seconds until the trace was within 2 % of the end


@dataclass(frozen=True)
class Requirement:
    """An instance, and the figures that the median run has to reach."""

    name: str
    share: float
    capacities: tuple[float, ...]
    resources: int
    words: str
    is_met: Callable[[float, float], bool]  # (load distance, bound)
    is_hard: bool = True

    def cell(self, scale: float) -> Cell:
        groups, nodes = round(GROUPS * scale), max(2, round(NODES * scale))
        return lognormal_cell(
            f"large-{self.name}",
            groups,
            nodes,
            round(self.share * groups),
            capacities=self.capacities,
            resources=self.resources,
        )


REQUIREMENTS = (
    Requirement("1%", 0.01, (1.0,), 1, "within 1.02 of the bound", lambda d, b: d <= 1.02 * b),
    Requirement("5%", 0.05, (1.0,), 1, "at most 0.001 %", lambda d, _: d <= 0.001),
    Requirement(
        "capacities",
        0.01,
        LARGE_CAPACITIES,
        1,
        "within 1.1 of the bound",
        lambda d, b: d <= 1.1 * b,
        is_hard=False,
    ),
    Requirement("resources", 0.05, (1.0,), 3, "at most 1 %", lambda d, _: d <= 1.0, is_hard=False),
)


def within_seconds(trace: Sequence[tuple[float, str, float]], final: float, total: float) -> float:
    """The time at which the trace first came within 2 % of the best found (or 1e-6 points of
    it)."""
    near = [s for s, _, distance in trace if distance <= WITHIN * final + 1e-6]
    return min(near, default=total)


def solve_once(cell: Cell, seed_base: int, index: int, seconds: float) -> LargeRun:
    """Draw, solve and verify in this process; only the solve is timed."""
    from solvers.model.stop import Stop
    from solvers.rebalance.solve import solve
    from solvers.verify.assignment import verify

    instance, seed = cell.draw(seed_base, index)
    problem, budget = problem_of(instance)
    del instance
    began = time.monotonic()
    result = solve(problem, budget, Stop(seconds), seed=seed)
    took = time.monotonic() - began
    # Read before verifying, because the memory of the verifier is no cost of a plan.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    nodes = [problem.node_ids[i] for i in result.assignment.tolist()]
    broken = verify(problem, budget, (problem.key_group_ids, nodes), result.to_dict())
    return LargeRun(
        load_distance=result.load_distance,
        bound=result.bound or 0.0,
        seconds=took,
        peak_bytes=peak,
        before=result.load_distance_before,
        violations=len(broken),
        method=result.method,
        within_s=within_seconds(result.trace, result.load_distance, took),
    )


def run_apart(arguments: Sequence[str]) -> LargeRun:
    """Run the program in a child process, so that peak memory is that of one solve."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.rebalance.large", "--child", *arguments],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=KILL_S,
    )
    return LargeRun(**json.loads(done.stdout.splitlines()[-1]))


def measure(requirement: Requirement, args: argparse.Namespace) -> bool:
    """Print a line for each run and the medians; return whether the requirement is met."""
    runs = [_child(requirement.name, index, args, args.scale) for index in range(args.runs)]
    for index, run in enumerate(runs):
        _print_progress(f"{requirement.name} [{index + 1}/{args.runs}]", run)
    distance = statistics.median(run.load_distance for run in runs)
    bound = statistics.median(run.bound for run in runs)
    took = statistics.median(run.seconds for run in runs)
    peak = max(run.peak_bytes for run in runs)
    is_met = requirement.is_met(distance, bound)
    fits = max(run.seconds for run in runs) <= TIME_LIMIT_S and peak < MEMORY_LIMIT
    sound = not any(run.violations for run in runs)
    print(
        f"{requirement.name} median: {distance:.6g} %, bound {bound:.6g}, ratio "
        f"{_ratio(distance, bound)}, {took:.1f} s, peak {peak / 1024**3:.2f} GiB; asked: "
        f"{requirement.words}: {'met' if is_met else 'NOT MET'}"
        f"{'' if fits else '; TIME OR MEMORY OVER'}{'' if sound else '; VERIFIER OBJECTS'}",
        flush=True,
    )
    return (is_met or not requirement.is_hard) and fits and sound


def growth(args: argparse.Namespace) -> bool:
    """Whether the time to within 2 % grows no faster than n log n, by more than a factor of 2."""
    times: dict[int, float] = {}
    for size in GROWTH_SIZES:
        runs = [_child("1%", index, args, size / GROUPS) for index in range(args.runs)]
        times[size] = statistics.median(run.within_s for run in runs)
        print(f"growth: {size:,} key groups: within 2 % after {times[size]:.3f} s", flush=True)
    small, large = GROWTH_SIZES[0], GROWTH_SIZES[-1]
    allowed = GROWTH_SLACK * (large * math.log(large)) / (small * math.log(small))
    grew = times[large] / max(times[small], 1e-9)
    is_met = grew <= allowed
    print(f"growth: x{grew:.0f}, allowed x{allowed:.0f}: {'met' if is_met else 'NOT MET'}")
    return is_met


def _child(name: str, index: int, args: argparse.Namespace, scale: float) -> LargeRun:
    words = ["--only", name, "--index", str(index), "--seconds", f"{args.seconds:g}"]
    return run_apart([*words, "--scale", f"{scale:g}", "--seed-base", args.seed_base])


def _print_progress(place: str, run: LargeRun) -> None:
    print(
        f"{place}: {run.before:.4g} -> {run.load_distance:.6g} %, bound {run.bound:.6g}, ratio "
        f"{_ratio(run.load_distance, run.bound)}, {run.seconds:.1f} s, within 2 % after "
        f"{run.within_s:.2f} s, peak {run.peak_bytes / 1024**3:.2f} GiB, {run.method}",
        flush=True,
    )


def _ratio(distance: float, bound: float) -> str:
    return f"{distance / bound:.4f}" if bound > 0 else "-"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = short_parser(__doc__)
    add = parser.add_argument
    add("--runs", type=int, default=3)
    add("--seconds", type=float, default=13.0)
    add("--scale", type=float, default=1.0)
    add("--only", choices=[r.name for r in REQUIREMENTS])
    add("--growth", action="store_true")
    add("--seed-base", default=commit(), help="hexadecimal; the commit's hash unless given")
    add("--index", type=int, default=0, help=argparse.SUPPRESS)
    add("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    wanted = [r for r in REQUIREMENTS if args.only in (None, r.name)]
    if args.child:
        base = int(args.seed_base[:16], 16)
        run = solve_once(wanted[0].cell(args.scale), base, args.index, args.seconds)
        print(json.dumps(asdict(run)))
        return 0
    met = [measure(requirement, args) for requirement in wanted]
    if args.growth:
        met.append(growth(args))
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
