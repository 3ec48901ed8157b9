"""Moves, bytes and expected load distance of the fewest moves, beside other ways to save moves.

    python -m bench.rebalance.fewest_moves [--seeds 3] [--rounds 400] [--sizes 6x120,20x400,60x1200]

Loads are lognormal and placed at random; the noise of a key group is like that of recorded
windows: 14 % of its load from window to window, four times that for one in twenty. Every method
stops by steps, so that a busy machine gives the same table. Means over the seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bench.common.runner import short_parser
from solvers.model.budget import Budget
from solvers.model.noise import LoadNoise
from solvers.model.problem import IntArray, Problem
from solvers.model.stop import Stop
from solvers.noise.load_distance_distribution import next_load_distance
from solvers.rebalance.fewest_moves import FewestMovesParams, tolerance_of
from solvers.rebalance.fewest_moves_search import Goal, lower, undo_needless
from solvers.rebalance.noise_potential import NodeTerms, NoisyPlacement
from solvers.rebalance.search_arrays import Layout
from solvers.rebalance.solve import solve

WINDOW_SD, WILD_SHARE, WILD_FACTOR = 0.14, 0.05, 4.0
WINDOWS, PERIOD_VARIANCE_RATIO, NODE_VARIANCE_RATIO = 12, 1.5, 1.3
BEST_STEPS = 60
DEFAULT = FewestMovesParams().tolerance
TOLERANCES = (0.02, DEFAULT, 0.1, 0.25, 0.5)
BISECTIONS = 7


@dataclass(frozen=True, eq=False)
class NoisyInstance:
    """A problem with noise, and its plan with the least load distance."""

    problem: Problem
    exact: IntArray
    rounds: int

    def level(self, tolerance: float) -> float:
        """The largest expected load distance within a tolerance of the best plan."""
        measured = next_load_distance(self.problem, self.exact)
        return measured.median + tolerance_of(measured, tolerance)


def noisy_instance(nodes: int, groups: int, seed: int, rounds: int) -> NoisyInstance:
    """An instance of a size; the seed decides about loads, noise and placement."""
    rng = np.random.default_rng(seed)
    load = rng.lognormal(0.0, 0.5, (groups, 1))
    relative = WINDOW_SD * rng.lognormal(0.0, 0.3, (groups, 1))
    relative[rng.random(groups) < WILD_SHARE] *= WILD_FACTOR
    error = load * relative * np.sqrt(PERIOD_VARIANCE_RATIO / WINDOWS)
    problem = Problem(
        node_ids=tuple(f"n{i}" for i in range(nodes)),
        resources=("cpu",),
        capacity=np.ones((nodes, 1)),
        node_state=("alive",) * nodes,
        key_group_ids=tuple(f"k{i}" for i in range(groups)),
        operator_ids=("operator",) * groups,
        load=load,
        state_bytes=(1e6 * load[:, 0] * rng.lognormal(0.0, 0.5, groups)).astype(np.int64),
        current=rng.integers(0, nodes, groups),
        noise=LoadNoise(error, error, np.array([NODE_VARIANCE_RATIO]), WINDOWS),
    )
    exact = solve(problem, Budget(), Stop(steps=BEST_STEPS), method="search").assignment
    return NoisyInstance(problem, exact, rounds)


def _flux(of: NoisyInstance) -> IntArray:
    return solve(of.problem, Budget(), Stop(steps=1000), method="flux").assignment


def _fewest(of: NoisyInstance, tolerance: float) -> IntArray:
    params = {"start": of.exact, "tolerance": tolerance}
    stop = Stop(steps=of.rounds)
    return solve(of.problem, Budget(), stop, method="fewest_moves", params=params).assignment


def _taken_back(of: NoisyInstance) -> IntArray:
    """Take back moves of the best plan that make no difference, as a filter after a solver
    would."""
    return _searched(of, of.exact, undo_needless)


def _forward(of: NoisyInstance) -> IntArray:
    """Make moves from the current placement until it is level enough."""
    return _searched(of, of.problem.current, lambda at, over: lower(at, Goal(), over))


def _searched(
    of: NoisyInstance, start: IntArray, step: Callable[[NoisyPlacement, Callable[[], bool]], None]
) -> IntArray:
    layout = Layout.of(of.problem, Budget())
    terms = NodeTerms.of(of.problem, layout, of.level(DEFAULT))
    at = NoisyPlacement(terms, layout.places_of(start), layout.fixed.home, np.inf)
    step(at, lambda: False)
    return layout.assignment_of(at.place)


def _smaller_budget(of: NoisyInstance) -> IntArray:
    """Find the least budget of moves with which the search is level enough, by bisection."""
    low, high = 0, int((of.exact != of.problem.current).sum())
    found = of.exact
    for _ in range(BISECTIONS):
        middle = (low + high) // 2
        stop = Stop(steps=BEST_STEPS // 4)
        plan = solve(of.problem, Budget(moves=middle), stop, method="search").assignment
        if next_load_distance(of.problem, plan).median <= of.level(DEFAULT):
            found, high = plan, middle
        else:
            low = middle
    return found


METHODS: dict[str, Callable[[NoisyInstance], IntArray]] = {
    "the least load distance (exact)": lambda of: of.exact,
    "Flux": _flux,
    "search, least budget of moves that is enough (0.05)": _smaller_budget,
    "best plan, needless moves taken back (0.05)": _taken_back,
    "moves from the current placement (0.05)": _forward,
    **{
        f"fewest_moves, tolerance {share:g}": lambda of, share=share: _fewest(of, share)  # type: ignore[misc]
        for share in TOLERANCES
    },
}


def row_of(name: str, instances: Sequence[NoisyInstance]) -> str:
    """Return a row of the table: means over the instances."""
    figures = []
    for of in instances:
        plan = METHODS[name](of)
        moved = plan != of.problem.current
        measured = next_load_distance(of.problem, plan).median
        figures.append((moved.sum(), of.problem.state_bytes[moved].sum() / 1e6, measured))
    moves, megabytes, expected = np.mean(figures, axis=0)
    return f"| {name} | {moves:.1f} | {megabytes:.0f} | {expected:.2f} |"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = short_parser(__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=400, help="tries to replace moves")
    parser.add_argument("--sizes", default="6x120,20x400,60x1200")
    args = parser.parse_args(arguments)
    for size in args.sizes.split(","):
        nodes, groups = map(int, size.split("x"))
        instances = [noisy_instance(nodes, groups, s, args.rounds) for s in range(args.seeds)]
        print(f"\n{groups} key groups on {nodes} nodes\n")
        print("| plan | moves | megabytes | expected load distance, % |\n|---|---|---|---|")
        for name in METHODS:
            print(row_of(name, instances), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
