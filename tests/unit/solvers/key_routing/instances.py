"""Instances that several tests of key routing share."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from ballast.contracts.identity import hashed_key_group
from solvers.key_routing.key_graph import KeyGraph
from solvers.model.amortisation import (
    AmortisationGate,
)
from solvers.model.key_statistics import KeyStatistics, RoutedEdge
from solvers.model.problem import Problem

QUICK = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)


@st.composite
def key_graphs(draw: st.DrawFn) -> KeyGraph:
    pair = st.tuples(
        st.integers(0, 8).map(lambda i: f"a{i}".encode()),
        st.integers(0, 5).map(lambda i: f"b{i}".encode()),
    )
    counts = draw(st.dictionaries(pair, st.integers(1, 20).map(float), min_size=1, max_size=25))
    return KeyGraph.from_counts([(a, b, n) for (a, b), n in counts.items()])


GROUPS, NODES, KEYS = 4, 2, 40


FREE = AmortisationGate(records_per_byte=0.0)


EDGE = RoutedEdge(("parse", "clean"), ("count",))


def keys_of(operator: str) -> list[str]:
    return [f"{operator[0]}{i}" for i in range(KEYS)]


def world(rate: float = 10.0) -> tuple[Problem, KeyStatistics]:
    """Key i of parse (and of clean, which has the same keys) sends to key i of count only."""
    operators = ("parse", "clean", "count")
    ids = [f"{operator}/{group}" for operator in operators for group in range(GROUPS)]
    keys = {"parse": keys_of("a"), "clean": keys_of("a"), "count": keys_of("b")}
    rates = dict.fromkeys(ids, 0.0)
    for operator in operators:
        for key in keys[operator]:
            rates[f"{operator}/{hashed_key_group(key, GROUPS)}"] += rate
    pairs = {
        ("parse", "clean"): {(key, key): rate for key in keys["parse"]},
        ("parse", "count"): dict.fromkeys(zip(keys["parse"], keys["count"], strict=True), rate),
    }
    row = {name: i for i, name in enumerate(ids)}
    flows: dict[tuple[int, int], float] = {}
    for (left, right), of_edge in pairs.items():
        for (a, b), pair_rate in of_edge.items():
            ends = (
                row[f"{left}/{hashed_key_group(a, GROUPS)}"],
                row[f"{right}/{hashed_key_group(b, GROUPS)}"],
            )
            flows[ends] = flows.get(ends, 0.0) + pair_rate
    problem = Problem(
        node_ids=tuple(f"n{i}" for i in range(NODES)),
        resources=("cpu",),
        capacity=np.ones((NODES, 1)),
        node_state=("alive",) * NODES,
        key_group_ids=tuple(ids),
        operator_ids=tuple(name.split("/")[0] for name in ids),
        load=np.array([[rates[name] / 100.0] for name in ids]),
        state_bytes=np.array([round(100 * rates[name]) for name in ids]),
        # Key group g of every operator on node g mod 2.
        current=np.array([int(name.split("/")[1]) % NODES for name in ids]),
        traffic_from=np.array([a for a, _ in flows]),
        traffic_to=np.array([b for _, b in flows]),
        traffic_rate=np.array(list(flows.values())),
    )
    counted = {operator: dict.fromkeys(keys[operator], rate) for operator in operators}
    return problem, KeyStatistics(counted, pairs, rates)


def all_moves(found):
    return [move for of_key in found.moves for move in of_key]
