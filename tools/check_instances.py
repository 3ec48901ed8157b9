"""Solves random instances of every kind and verifies the results; stops at the first violation.

    python -m tools.check_instances --count 10000

An instance depends only on the seed and its number. A failing instance is written as a problem
folder, with the command that repeats it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ballast.cli.convert import to_folder
from ballast.problems import write_problem
from solvers.model.budget import Budget
from solvers.model.noise import LoadNoise
from solvers.model.objective import BALANCE, JOINT, OBJECTIVES, WEIGHTED, Objective, TradeWeights
from solvers.model.problem import AllowedNodes, Problem
from solvers.model.stop import Stop
from solvers.planner.allocation import AllocationOptions, allocate
from solvers.rebalance import METHODS as REBALANCE_METHODS
from solvers.rebalance.bound import counting_bound
from solvers.verify.assignment import verify
from solvers.verify.infeasible import verify_infeasible

SIZES = ((4, 10), (12, 80), (40, 400))
"""Most nodes and most key groups of three sizes of clusters."""
WITHOUT_TRAFFIC = {BALANCE: 0.8, JOINT: 0.1, WEIGHTED: 0.1}
"""Share of the instances without traffic."""
HANGS_AFTER_S = 20.0
"""Seconds over its time limit after which a method counts as hanging."""
PROGRESS_S = 10.0

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class InstanceFinding:
    """The result of one instance."""

    number: int
    status: str
    method: str
    kinds: tuple[str, ...]
    violations: tuple[str, ...]


def random_instance(
    seed: int, number: int, kind: str = BALANCE
) -> tuple[Problem, Budget, Objective]:
    """Return instance ``number`` of a seed: random size, loads, rules, budget and load bound."""
    rng = np.random.default_rng([seed, number])
    most_nodes, most_groups = SIZES[rng.integers(len(SIZES))]
    n_nodes = int(rng.integers(1, most_nodes + 1))
    n_groups = int(rng.integers(0, most_groups + 1))
    n_resources = int(rng.choice([1, 1, 2, 3]))
    load = _loads(rng, n_groups, n_resources)
    current = _placement(rng, n_groups, n_nodes)
    balanced = _balanced(rng, n_resources)
    capacity = _capacities(rng, load, n_nodes, balanced)
    state_bytes = _state_bytes(rng, load)
    problem = Problem(
        node_ids=tuple(f"n{i}" for i in range(n_nodes)),
        resources=tuple(f"r{r}" for r in range(n_resources)),
        capacity=capacity,
        node_state=_states(rng, n_nodes),
        key_group_ids=tuple(f"k{k}" for k in range(n_groups)),
        operator_ids=("operator",) * n_groups,
        load=load,
        state_bytes=state_bytes,
        current=current,
        pinned=rng.random(n_groups) < rng.choice([0.0, 0.0, 0.1, 0.5]),
        allowed=_allowed(rng, current, n_nodes),
        pause_c0_s=float(rng.choice([0.0, 0.1, 2.5])),
        pause_s_per_byte=float(rng.choice([0.0, 1e-8, 1e-3])),
        weight=rng.choice([0.25, 1.0, 3.0], n_resources) if rng.random() < 0.3 else None,
        balanced=balanced,
        **_traffic(rng, n_groups, WITHOUT_TRAFFIC[kind]),
    )
    budget = _budget(rng, problem)
    aim = _objective(rng, kind)
    # Random numbers of its own, so that an instance without noise is what it was.
    return with_random_noise(np.random.default_rng([seed, number, 1]), problem), budget, aim


def with_random_noise(rng: np.random.Generator, problem: Problem) -> Problem:
    """The problem with noise of its loads and its traffic, or without, as in an older snapshot."""
    if rng.random() < 0.5:
        return problem
    shape, calm = problem.load.shape, float(rng.choice([0.0, 0.02, 0.2]))
    relative = np.where(rng.random(shape) < 0.1, rng.choice([0.0, 1.0, 30.0]), calm)
    edges = problem.traffic_rate
    noise = LoadNoise(
        mean_error=problem.load * relative * rng.random(shape),
        period_sd=problem.load * relative * rng.random(shape),
        node_variance_ratio=rng.choice([0.5, 1.0, 4.0], problem.n_resources),
        windows=int(rng.integers(4, 100)),
        trend=str(rng.choice(["", "cpu: loads rose"])),
        traffic_error=None if edges is None else calm * edges,
        traffic_period_sd=None if edges is None else calm * edges,
    )
    return replace(problem, noise=noise)


def _objective(rng: np.random.Generator, kind: str) -> Objective:
    """Return a random objective of a kind: balance, joint or weighted."""
    bound = float(rng.choice([2.0, 10.0, 50.0]))
    if kind != WEIGHTED:
        return Objective(kind, bound)
    traffic, load = rng.choice([0.01, 0.3, 1.0, 5.0, 100.0], size=2).tolist()
    return Objective(JOINT, weights=TradeWeights(traffic, load))


def _loads(rng: np.random.Generator, n_groups: int, n_resources: int) -> Floats:
    shape = (n_groups, n_resources)
    kind = rng.choice(["lognormal", "whole", "even", "zero", "wide", "one_heavy"])
    if kind == "lognormal":
        return rng.lognormal(0.0, float(rng.choice([0.2, 0.8, 2.0])), shape)
    if kind == "whole":
        return rng.integers(0, 13, shape).astype(np.float64)
    if kind == "even":
        return np.ones(shape)
    if kind == "wide":
        return np.asarray(10.0 ** rng.uniform(-12, 18, shape))
    loads = np.zeros(shape) if kind == "zero" else rng.uniform(0.5, 1.5, shape)
    if kind == "one_heavy" and n_groups:
        loads[rng.integers(n_groups)] *= n_groups
    return loads


def _placement(rng: np.random.Generator, n_groups: int, n_nodes: int) -> npt.NDArray[np.int64]:
    kind = rng.choice(["random", "in_turn", "skewed", "one_node"])
    if kind == "in_turn":
        return np.arange(n_groups) % n_nodes
    if kind == "one_node":
        return np.full(n_groups, rng.integers(n_nodes))
    if kind == "skewed":
        return np.asarray((n_nodes * rng.random(n_groups) ** 2).astype(np.int64))
    return rng.integers(0, n_nodes, n_groups)


def _balanced(rng: np.random.Generator, n_resources: int) -> npt.NDArray[np.bool_]:
    balanced = np.ones(n_resources, dtype=bool)
    if n_resources > 1 and rng.random() < 0.4:
        balanced[rng.integers(1, n_resources) :] = False
    return balanced


def _capacities(
    rng: np.random.Generator, load: Floats, n_nodes: int, balanced: npt.NDArray[np.bool_]
) -> Floats:
    """Return equal capacities, a few sizes, or all different; caps near the mean load."""
    kind = rng.choice(["equal", "sizes", "different"])
    room = np.ones(n_nodes)
    if kind == "sizes":
        room = rng.choice([1.0, 2.0, 4.0], n_nodes)
    elif kind == "different":
        room = rng.uniform(0.5, 4.0, n_nodes)
    capacity = room[:, None] * 10.0 ** rng.integers(-3, 4, len(balanced))
    fair = load.sum(axis=0) / room.sum()
    tight = room[:, None] * np.maximum(fair * rng.uniform(0.7, 2.0), 1e-9)
    return np.asarray(np.where(balanced, capacity, tight))


def _states(rng: np.random.Generator, n_nodes: int) -> tuple[str, ...]:
    leaving = float(rng.choice([0.0, 0.1, 0.3]))
    lost = float(rng.choice([0.0, 0.0, 0.1, 0.3]))
    states = rng.choice(
        ["draining", "dead", "alive"], n_nodes, p=[leaving, lost, 1 - leaving - lost]
    )
    return tuple(str(state) for state in states)


def _state_bytes(rng: np.random.Generator, load: Floats) -> npt.NDArray[np.int64]:
    n_groups = len(load)
    kind = rng.choice(["none", "equal", "independent", "like_load"])
    if kind == "none":
        return np.zeros(n_groups, dtype=np.int64)
    if kind == "equal":
        return np.full(n_groups, 1_000, dtype=np.int64)
    if kind == "like_load":
        return np.minimum(1e3 * load[:, 0], 1e12).astype(np.int64)
    return rng.lognormal(10.0, 2.0, n_groups).astype(np.int64)


def _allowed(
    rng: np.random.Generator, current: npt.NDArray[np.int64], n_nodes: int
) -> AllowedNodes | None:
    """Return lists for some key groups; nearly all contain the current node."""
    if rng.random() < 0.6:
        return None
    restricted = rng.random(len(current)) < float(rng.choice([0.1, 0.5, 1.0]))
    rows = [
        np.unique(rng.integers(0, n_nodes, rng.integers(1, 5))) if listed else np.empty(0, int)
        for listed in restricted
    ]
    at_home = rng.random(len(current)) < 0.98
    rows = [
        np.union1d(row, [home]) if listed and stays else row
        for row, home, listed, stays in zip(rows, current, restricted, at_home, strict=True)
    ]
    lengths = [len(row) for row in rows]
    nodes = np.concatenate(rows).astype(np.int64) if rows else np.empty(0, np.int64)
    return AllowedNodes(np.concatenate(([0], np.cumsum(lengths, dtype=int))), nodes, restricted)


def _traffic(rng: np.random.Generator, n_groups: int, without_traffic: float) -> dict[str, Any]:
    if n_groups < 2 or rng.random() < without_traffic:
        return {}
    ends = rng.integers(0, n_groups, (2, 2 * n_groups))
    rate = rng.random(2 * n_groups)
    return {"traffic_from": ends[0], "traffic_to": ends[1], "traffic_rate": rate}


def _budget(rng: np.random.Generator, problem: Problem) -> Budget:
    """Return random limits, each from nothing to a quarter of the total, or none."""
    share = float(rng.choice([0.0, 0.02, 0.1, 0.25]))
    n_groups, total = problem.n_key_groups, int(problem.state_bytes.sum())
    pause_s = problem.pause_c0_s * n_groups + problem.pause_s_per_byte * total
    given = rng.random(3) < (0.7, 0.3, 0.3)
    return Budget(
        moves=int(np.ceil(share * n_groups)) if given[0] else None,
        bytes=int(share * total) if given[1] else None,
        pause_s=share * pause_s if given[2] else None,
    )


def kinds_of(problem: Problem, budget: Budget) -> tuple[str, ...]:
    """Return the features of an instance, to show that every kind was tried."""
    facts = {
        "capacities": len(np.unique(problem.capacity[:, problem.balanced_mask], axis=0)) > 1,
        "several resources": problem.n_resources > 1,
        "weights": bool(np.any(problem.weights != 1.0)),
        "caps": not problem.balanced_mask.all(),
        "draining": bool(problem.draining.any()),
        "dead": bool(problem.dead.any()),
        "pinned": bool(problem.pinned_mask.any()),
        "allowed nodes": problem.allowed is not None,
        "noise": problem.noise is not None,
        "budget of moves": budget.moves is not None,
        "budget of bytes": budget.bytes is not None,
        "budget of pause": budget.pause_s is not None,
    }
    return tuple(name for name, is_so in facts.items() if is_so)


def check(
    number: int, *, seed: int, method: str, stop: Stop, objective: str = BALANCE
) -> InstanceFinding:
    """Solve one instance and verify the result; every exception counts as a violation."""
    problem, budget, aim = random_instance(seed, number, objective)
    kinds = kinds_of(problem, budget)
    began = time.monotonic()
    try:
        result = allocate(aim, problem, budget, stop, AllocationOptions(number, method)).result
    except Exception as error:  # noqa: BLE001 - an instance is valid, so an exception is a bug
        return InstanceFinding(
            number, "raised", method, kinds, (f"{type(error).__name__}: {error}",)
        )
    seconds = time.monotonic() - began
    if result.is_solved:
        nodes = np.array(problem.node_ids, dtype=object)[result.assignment].tolist()
        broken = verify(problem, budget, (problem.key_group_ids, nodes), result.to_dict(), aim)
    else:
        broken = verify_infeasible(problem, budget)
    violations = [str(violation) for violation in broken]
    bound = counting_bound(problem, budget) if result.is_solved else 0.0
    if bound > result.load_distance * (1 + 1e-9) + 1e-9:
        # A result cannot show this, because its bound is at most its load distance.
        violations.append(f"bound {bound:.9g} is above a plan with {result.load_distance:.9g}")
    if not result.is_solved and not result.reason:
        violations.append("infeasible without a reason")
    if stop.seconds is not None and seconds > stop.seconds + HANGS_AFTER_S:
        violations.append(f"took {seconds:.1f} s, limit {stop.seconds:g} s")
    return InstanceFinding(number, result.status.value, result.method, kinds, tuple(violations))


def check_all(args: argparse.Namespace) -> Iterator[InstanceFinding]:
    """Yield the findings in order."""
    one = partial(
        check,
        seed=args.seed,
        method=args.method,
        stop=Stop(args.seconds if args.steps is None else None, args.steps),
        objective=args.objective,
    )
    numbers = range(args.start, args.start + args.count)
    if args.workers == 1:
        yield from map(one, numbers)
        return
    with ProcessPoolExecutor(args.workers) as pool:
        yield from pool.map(one, numbers, chunksize=20)


def report_failure(finding: InstanceFinding, args: argparse.Namespace) -> None:
    problem, budget, aim = random_instance(args.seed, finding.number, args.objective)
    folder = Path(tempfile.mkdtemp(prefix=f"instance-{args.seed}-{finding.number}-", dir=args.out))
    write_problem(folder, to_folder(problem, budget, aim))
    print(f"instance {finding.number} of seed {args.seed} ({', '.join(finding.kinds)}):")
    for violation in finding.violations:
        print(f"  {violation}")
    print(
        f"written to {folder}; again: python -m tools.check_instances --seed {args.seed} "
        f"--start {finding.number} --count 1 --method {args.method} --objective {args.objective}"
    )


def run(args: argparse.Namespace) -> int:
    began = last = time.monotonic()
    statuses: Counter[str] = Counter()
    methods: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    done = failed = 0
    for finding in check_all(args):
        done += 1
        statuses[finding.status] += 1
        methods[finding.method] += 1
        kinds.update(finding.kinds)
        if finding.violations:
            failed += 1
            report_failure(finding, args)
            if not args.keep_going:
                break
        if time.monotonic() - last > PROGRESS_S:
            last = time.monotonic()
            print(f"{done} of {args.count}, {failed} failed, {last - began:.0f} s", file=sys.stderr)
    for title, counter in (("status", statuses), ("method", methods), ("with", kinds)):
        print(f"{title}: " + ", ".join(f"{name} {n}" for name, n in counter.most_common()))
    print(f"{done} instances, {failed} with violations, {time.monotonic() - began:.1f} s")
    return 1 if failed else 0


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--count", type=int, default=10_000, help="number of instances (default 10000)")
    add("--start", type=int, default=0, help="number of the first one")
    add("--seed", type=int, default=0, help="seed of the instances (default 0)")
    add("--method", default="auto", choices=list(REBALANCE_METHODS))
    add("--objective", default=BALANCE, choices=(*OBJECTIVES, WEIGHTED))
    add("--seconds", type=float, default=0.05, help="time limit of each (default 0.05)")
    add("--steps", type=int, help="stop each after this many steps instead")
    add("--workers", type=int, default=1, help="parallel processes")
    add("--out", type=Path, help="where to write a failing instance (default: a temporary folder)")
    add("--keep-going", action="store_true", help="do not stop at the first violation")
    return run(parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
