"""Rounds until 90 % of the obtainable collocation: ours, ALBIC, ALBIC with M pairs, COLA.

    python bench/collocate/rounds.py [--nodes 20] [--seeds 2] [--seed-base 1] [--csv FILE]

Setting of seed 000, 5.3 (scenario.py): 20 key groups a node, 10 operators in pairs or in a chain,
20 % of the nodes change by up to +-2 % a round. Every method has the same bound on load distance.
Obtainable is the most that any method had in any round within that bound. The lower bound on
rounds is proven (solvers/collocate/lower_bound.py) and ignores load. Nothing is timed, so the
same seeds print the same table anywhere. Ends with 1 if our method broke budget or bound.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.collocate.scenario import Scenario, first_problem, next_problem
from solvers import Budget, Problem, Result, Stop
from solvers.collocate import albic, cola, joint
from solvers.collocate.lower_bound import fewest_rounds
from solvers.collocate.memory import TargetMemory

MOVES = {20: 10, 40: 20, 60: 20}
SLACK = 1e-6


@dataclasses.dataclass(frozen=True, slots=True)
class Round:
    collocation: float
    load_distance: float
    distance_before: float
    moves: int


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    scenario: Scenario
    moves: int
    bound: float  # load distance in percent of the mean
    rounds: int

    @property
    def bound_points(self) -> float:
        """The same in points of load, for ALBIC."""
        return self.bound * self.scenario.mean_load


Step = Callable[[Problem, int], Result]


def ours(setting: Setting) -> Step:
    target: list[TargetMemory | None] = [None]

    def step(problem: Problem, seed: int) -> Result:
        params = joint.JointParams(max_load_distance=setting.bound, target=target[0])
        made = joint.plan(problem, Budget(moves=setting.moves), Stop(), seed, params)
        target[0] = made.target
        return made.result

    return step


def myopic(setting: Setting) -> Step:
    """Ours without a target: what keeping one is worth."""

    def step(problem: Problem, seed: int) -> Result:
        params = {"max_load_distance": setting.bound, "score_factor": 1e9}
        return joint.solve(problem, Budget(moves=setting.moves), Stop(), seed, params)

    return step


def paper(setting: Setting, pairs: int) -> Step:
    params = {"max_ld": setting.bound_points, "pairs": pairs, "rebalance": "flux"}

    def step(problem: Problem, seed: int) -> Result:
        return albic.solve(problem, Budget(moves=setting.moves), Stop(steps=20), seed, params)

    return step


def from_scratch(setting: Setting) -> Step:
    def step(problem: Problem, seed: int) -> Result:
        params = {"max_load_distance": setting.bound}
        return cola.solve(problem, Budget(), Stop(), seed, params)

    return step


def simulate(step: Step, setting: Setting, seed: int, rounds: int) -> list[Round]:
    problem = first_problem(setting.scenario, seed)
    random = np.random.default_rng([seed, 2])
    history = []
    for number in range(rounds):
        result = step(problem, seed + number)
        history.append(
            Round(
                result.collocation_factor or 0.0,
                result.load_distance,
                result.load_distance_before,
                result.moves,
            )
        )
        if history[-1].collocation >= 99.999:
            break
        problem = next_problem(problem, result.assignment, random)
    return history


def rounds_to(history: list[Round], wanted: float) -> int | None:
    return next((i + 1 for i, r in enumerate(history) if r.collocation >= wanted - SLACK), None)


def broken(history: list[Round], setting: Setting) -> int:
    """Rounds over the budget, or over the load bound though they began within it."""
    return sum(
        r.moves > setting.moves
        or (r.distance_before <= setting.bound and r.load_distance > setting.bound + SLACK)
        for r in history
    )


def measure(setting: Setting, seed: int) -> dict[str, list[Round]]:
    steps: dict[str, tuple[Step, int]] = {
        "ours": (ours(setting), setting.rounds),
        "myopic": (myopic(setting), setting.rounds),
        f"albic-{setting.moves}": (paper(setting, setting.moves), 2 * setting.rounds),
        "albic": (paper(setting, 1), 5 * setting.rounds),
        "cola": (from_scratch(setting), 3),
    }
    return {name: simulate(step, setting, seed, n) for name, (step, n) in steps.items()}


def obtainable(histories: dict[str, list[Round]], bound: float) -> float:
    within = [
        r.collocation
        for history in histories.values()
        for r in history
        if r.load_distance <= bound + SLACK
    ]
    return max(within, default=0.0)


def shown(history: list[Round], wanted: float) -> str:
    """Rounds needed, or the best collocation it ever had; and moves a round."""
    needed = rounds_to(history, wanted)
    best = max(r.collocation for r in history)
    moves = np.mean([r.moves for r in history[:needed]])
    reached = str(needed) if needed else f"never ({best:.0f} %)"
    return f"{reached} / {moves:.0f}"


SHAPES = {
    "pairs": ("pairs", 1.0, 0.0),
    "pairs, skewed": ("pairs", 1.0, 0.5),
    "pairs, half": ("pairs", 0.5, 0.0),
    "chains": ("chains", 1.0, 0.0),
    "chains, skewed": ("chains", 1.0, 0.5),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=20, choices=sorted(MOVES))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--seed-base", type=int, default=1)
    parser.add_argument("--bound", type=float, default=10.0, help="percent of the mean load")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--shapes", nargs="*", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--csv", type=Path, help="every round of every method")
    args = parser.parse_args()
    rows: list[list[object]] = []
    n_broken = 0
    print(
        f"{args.nodes} nodes, {MOVES[args.nodes]} moves a round, load distance <= {args.bound:g} % "
        "of the mean; rounds / moves a round"
    )
    for shape in args.shapes:
        kind, share, skew = SHAPES[shape]
        scenario = Scenario(args.nodes, kind, share, skew)
        setting = Setting(scenario, MOVES[args.nodes], args.bound, args.rounds)
        for seed in range(args.seed_base, args.seed_base + args.seeds):
            histories = measure(setting, seed)
            n_broken += broken(histories["ours"], setting)
            wanted = 0.9 * obtainable(histories, args.bound)
            problem = first_problem(scenario, seed)
            assert problem.traffic_rate is not None
            least = fewest_rounds(
                problem, wanted / 100.0 * float(problem.traffic_rate.sum()), setting.moves
            )
            figures = "  ".join(f"{name} {shown(h, wanted)}" for name, h in histories.items())
            print(
                f"{shape:15} seed {seed}: 90 % is {wanted:5.1f} %  bound {least}  {figures}",
                flush=True,
            )
            for name, history in histories.items():
                rows += [
                    [shape, seed, name, i + 1, *dataclasses.astuple(r)]
                    for i, r in enumerate(history)
                ]
    if args.csv:
        write(args.csv, rows)
    print(f"rounds of ours over the budget or the load bound: {n_broken}")
    return 1 if n_broken else 0


def write(path: Path, rows: list[list[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(
            ["shape", "seed", "method", "round", "collocation", "load_distance",
             "load_distance_before", "moves"]
        )  # fmt: skip
        out.writerows(rows)


if __name__ == "__main__":
    sys.exit(main())
