"""Writes a problem folder with synthetic loads, for trying out `ballast solve` at any size.

    python bench/make_problem.py --key-groups 200 --nodes 10 --moves 20 --seed 1 --out DIR

``--loads lognormal`` draws key groups with a long tail on random nodes;
``--loads icde17`` is the generator of [ICDE17, 5.1]: even loads +-5 %, an even number of
key groups a node, and 20 % of the nodes shifted by half of ``--varies`` percent up or down.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ballast.problems import (
    AllowedColumns,
    BudgetSpec,
    KeyGroupColumns,
    NodeColumns,
    ProblemFolder,
    TrafficColumns,
    write_problem,
)

RESOURCES = ("cpu", "memory", "network")


def main(argv: list[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    write_problem(args.out, make_problem(args))
    print(args.out)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--key-groups", type=int, default=200)
    add("--nodes", type=int, default=10)
    add("--operators", type=int, default=4)
    add("--resources", type=int, default=1, choices=range(1, len(RESOURCES) + 1))
    add("--loads", choices=("lognormal", "icde17"), default="lognormal")
    add("--sigma", type=float, default=0.8, help="spread of the log-normal loads")
    add("--varies", type=float, default=20.0, help="percent, for --loads icde17")
    add("--capacities", default="1", help="drawn from these, such as 1,2,4")
    add("--utilisation", type=float, default=0.5, help="mean load of a node")
    add("--draining", type=int, default=0, help="number of draining nodes")
    add("--dead", type=int, default=0, help="number of dead nodes")
    add("--pinned", type=float, default=0.0, help="share of pinned key groups")
    add("--allowed", type=float, default=0.0, help="share of key groups with allowed_nodes")
    add("--traffic", type=int, default=0, help="edges out of each key group")
    add("--moves", type=int)
    add("--bytes", type=int)
    add("--pause-s", type=float)
    add("--seed", type=int, default=0)
    add("--out", required=True)
    return parser


def make_problem(args: argparse.Namespace) -> ProblemFolder:
    rng = np.random.default_rng(args.seed)
    choices = [float(c) for c in args.capacities.split(",")]
    capacity = rng.choice(choices, size=args.nodes)[:, None] * np.ones((1, args.resources))
    current, load = _loads(args, rng)
    load *= args.utilisation * capacity.sum(axis=0) / load.sum(axis=0)
    ids = _names("kg", args.key_groups)
    state = np.array(["alive"] * args.nodes, dtype=object)
    state[: args.draining] = "draining"
    state[args.draining : args.draining + args.dead] = "dead"
    pinned = (rng.random(args.key_groups) < args.pinned) & (state[current] != "dead")
    return ProblemFolder(
        resources=RESOURCES[: args.resources],
        nodes=NodeColumns(
            node_ids=_names("node", args.nodes),
            capacity=capacity,
            state=pa.array(state.tolist(), pa.string()),
            rack=pa.array([f"rack-{i % 4}" for i in range(args.nodes)], pa.string()),
        ),
        key_groups=KeyGroupColumns(
            key_group_ids=ids,
            operator_ids=_names("op", args.operators).take(
                pa.array(np.arange(args.key_groups) % args.operators)
            ),
            current=current,
            load=load,
            state_bytes=np.exp(rng.normal(16, 1, args.key_groups)).astype(np.int64),
            pinned=pinned,
            allowed=_allowed(args, rng, current),
        ),
        budget=BudgetSpec(args.moves, args.bytes, args.pause_s),
        traffic=_traffic(args, rng),
    )


def _names(prefix: str, count: int) -> pa.Array:
    width = len(str(max(0, count - 1)))
    return pa.array([f"{prefix}-{i:0{width}d}" for i in range(count)], pa.string())


def _loads(args: argparse.Namespace, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the current node [G] and the load [G, R] of key groups, in no particular unit."""
    shape = (args.key_groups, args.resources)
    if args.loads == "lognormal":
        return rng.integers(0, args.nodes, args.key_groups), rng.lognormal(0, args.sigma, shape)
    current = np.arange(args.key_groups) % args.nodes
    load = rng.uniform(0.95, 1.05, shape)
    shifted = rng.permutation(args.nodes)[: max(2, args.nodes // 5)]
    half = len(shifted) // 2
    for nodes, sign in ((shifted[:half], -1.0), (shifted[half:], 1.0)):
        for node in nodes:
            _shift(load, np.flatnonzero(current == node), sign * args.varies / 200, rng)
    return current, load


def _shift(load: np.ndarray, groups: np.ndarray, share: float, rng: np.random.Generator) -> None:
    """Change a node's load by ``share`` of it through a random half of its key groups."""
    some = rng.permutation(groups)[: max(1, (len(groups) + 1) // 2)]
    if not len(some):
        return
    change = share * load[groups].sum(axis=0) / load[some].sum(axis=0)
    load[some] *= np.maximum(0.0, 1.0 + change)


def _allowed(
    args: argparse.Namespace, rng: np.random.Generator, current: np.ndarray
) -> AllowedColumns | None:
    """Return the current node of a key group and up to two nodes that are alive."""
    if args.allowed <= 0:
        return None
    restricted = rng.random(args.key_groups) < args.allowed
    first_alive = args.draining + args.dead
    others = rng.integers(first_alive, args.nodes, (args.key_groups, 2))
    rows = np.column_stack((current, others))[restricted]
    indptr = np.concatenate(([0], np.cumsum(np.where(restricted, 3, 0))))
    return AllowedColumns(indptr, rows.ravel(), restricted)


def _traffic(args: argparse.Namespace, rng: np.random.Generator) -> TrafficColumns | None:
    """Each key group sends to random key groups, at random rates."""
    if args.traffic <= 0:
        return None
    sources = np.repeat(np.arange(args.key_groups), args.traffic)
    targets = rng.integers(0, args.key_groups, len(sources))
    return TrafficColumns(sources, targets, rng.lognormal(3, 1, len(sources)))


if __name__ == "__main__":
    sys.exit(main())
