"""Jobs whose whole load is level while a part of them is on one node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ballast.contracts.identity import split_key_group_name
from solvers.model.problem import Problem

NODES = 6
JOIN, OTHERS = 8, 52
"""Key groups; ten for each node in all."""


def hidden_skew(rack: Sequence[str] = (), join_on: Sequence[int] = (0,)) -> Problem:
    """Six nodes with ten key groups each; all eight of operator ``join`` are on ``join_on``."""
    join = [join_on[i % len(join_on)] for i in range(JOIN)]
    room = 10 - np.bincount(join, minlength=NODES)
    others = np.repeat(np.arange(NODES), room).tolist()
    operators = ("join",) * JOIN + ("parse", "count") * (OTHERS // 2)
    seen: dict[str, int] = {}
    names = []
    for operator in operators:
        names.append(f"{operator}/{seen.get(operator, 0)}")
        seen[operator] = seen.get(operator, 0) + 1
    return Problem(
        node_ids=tuple(f"node-{i}" for i in range(NODES)),
        resources=("cpu",),
        capacity=np.full((NODES, 1), 20.0),
        node_state=("alive",) * NODES,
        rack=tuple(rack),
        key_group_ids=tuple(names),
        operator_ids=operators,
        load=np.ones((len(operators), 1)),
        state_bytes=np.full(len(operators), 100),
        current=np.array(join + others),
    )


def hidden_edge_skew() -> Problem:
    """``hidden_skew`` with level operators, in which one node receives all records of an edge."""
    problem = hidden_skew(join_on=range(NODES))
    parse, count = (
        [k for k, operator in enumerate(problem.operator_ids) if operator == name]
        for name in ("parse", "count")
    )
    on_one = [k for k in count if problem.current[k] == problem.current[count[0]]]
    return replace(
        problem,
        traffic_from=np.array(parse),
        traffic_to=np.resize(on_one, len(parse)),
        traffic_rate=np.full(len(parse), 5.0),
    )


def hidden_placement() -> dict[tuple[str, int], str]:
    """The placement of ``hidden_skew``, by operator and number of the key group."""
    problem = hidden_skew()
    nodes = (problem.node_ids[i] for i in problem.current)
    return dict(zip(map(split_key_group_name, problem.key_group_ids), nodes, strict=True))
