"""Advice on components: from a policy alone, and from measured traffic."""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np
import pytest

from solvers.collocate.component_advice import advice_before_metrics, advice_from_traffic
from solvers.model.problem import Problem
from tests.support.limits import limit_s
from tests.support.policies import small_policy

KEYS = {"parse": ["tail", "day"], "sum": ["tail"], "route": ["day", "dest"], "store": ["dest"]}


def policy(keys=KEYS, edges=None):
    links = [{"from": a, "to": b} for a, b in edges or pairwise(keys)]
    plain = small_policy(operators=dict.fromkeys(keys, 2), edges=links)
    operators = tuple(
        operator.model_copy(update={"partition_key": tuple(keys[operator.id])})
        for operator in plain.operators
    )
    return plain.model_copy(update={"operators": operators})


def problem(of, rates, current):
    """Two key groups an operator; ``rates`` between key groups 0 of two operators."""
    names = [f"{operator.id}/{group}" for operator in of.operators for group in range(2)]
    return Problem(
        node_ids=("a", "b"),
        resources=("cpu",),
        capacity=np.ones((2, 1)),
        node_state=("alive", "alive"),
        key_group_ids=tuple(names),
        operator_ids=tuple(name.split("/")[0] for name in names),
        load=np.ones((len(names), 1)),
        state_bytes=np.ones(len(names), dtype=np.int64),
        current=np.array(current),
        traffic_from=np.array([names.index(f"{a}/0") for a, _ in rates]),
        traffic_to=np.array([names.index(f"{b}/0") for _, b in rates]),
        traffic_rate=np.array(list(rates.values())),
    )


TREE = [("parse", "sum"), ("parse", "route"), ("route", "store")]


def test_before_metrics_every_edge_counts_alike():
    (first, second) = advice_before_metrics(policy(edges=TREE))
    assert first == (
        "operators parse, sum could be one component, partitioned by tail: 1 of 3 edges would "
        "never leave a node"
    )
    assert second.startswith("operators route, store could be one component, partitioned by dest")


def test_traffic_says_which_components_to_choose_and_what_they_save():
    """``parse`` and ``route`` both by day outweigh the two edges that would be saved otherwise."""
    rates = {("parse", "sum"): 1.0, ("parse", "route"): 8.0, ("route", "store"): 1.0}
    given = policy(edges=TREE)
    apart = [0, 0, 0, 0, 1, 0, 1, 0]
    (line,) = advice_from_traffic(given, problem(given, rates, apart))
    assert line == (
        "operators parse, route could be one component, partitioned by day: 80.0 % of the traffic "
        "would never leave a node, and 80.0 % that now does would be saved"
    )
    together = advice_from_traffic(given, problem(given, rates, [0] * 8))
    assert together[0].endswith("and 0.0 % that now does would be saved")


def test_there_is_no_advice_without_traffic_or_common_keys():
    given = policy()
    silent = problem(given, {("parse", "sum"): 0.0}, [0] * 8)
    assert advice_from_traffic(given, silent) == []
    none = Problem(
        node_ids=("a",), resources=("cpu",), capacity=np.ones((1, 1)), node_state=("alive",),
        key_group_ids=("parse/0",), operator_ids=("parse",), load=np.ones((1, 1)),
        state_bytes=np.ones(1, dtype=np.int64), current=np.zeros(1, dtype=np.int64),
    )  # fmt: skip
    assert advice_from_traffic(given, none) == []
    strangers = policy({"parse": ["a"], "sum": ["b"]})
    assert advice_before_metrics(strangers) == []


@pytest.mark.parametrize("count", [14, 600])
def test_large_jobs_get_short_advice_soon(count):
    """Pairs of operators, each with a key of its own."""
    keys = {f"o{i}": [f"key{i // 2}"] for i in range(count)}
    began = time.monotonic()
    pairs = [(f"o{i}", f"o{i + 1}") for i in range(0, count, 2)]
    lines = advice_before_metrics(policy(keys, pairs))
    assert time.monotonic() - began < limit_s(5)
    assert len(lines) == 6
    assert lines[-1] == f"and {count // 2 - 5} more components"
