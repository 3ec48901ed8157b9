"""A topology of depth 3 with a diamond, for tests that need no JVM."""

from __future__ import annotations

from typing import Any

from ballast.contracts.policy import JobPolicy, parse_policy
from ballast.streaming.operators import Operator, Topology, build_topology
from ballast.streaming.state_merge import StateMerge

JOB = "diamond"


def policy_data(node_count: int = 3, **changes: Any) -> dict[str, Any]:
    return {
        "job": JOB,
        "window_s": 5,
        "statistics_period_s": 60,
        "operators": [
            {"id": "parse", "key_groups": 4, "partition_key": ["word"]},
            {"id": "count", "key_groups": 6, "partition_key": ["word"]},
            {"id": "total", "key_groups": 2, "partition_key": ["letter"]},
        ],
        "edges": [
            {"from": "parse", "to": "count"},
            {"from": "parse", "to": "total"},
            {"from": "count", "to": "total"},
        ],
        "nodes": [{"id": f"node-{number}"} for number in range(node_count)],
        **changes,
    }


def policy_of(node_count: int = 3, **changes: Any) -> JobPolicy:
    return parse_policy(policy_data(node_count, **changes), "test.yaml")


def parse(state: dict[str, Any], key: str, record: Any) -> list[tuple[str, str, int]]:
    return [("word", record["value"], 1)]


def count(state: dict[str, Any], key: str, record: tuple[str, str, int]) -> Any:
    state[key] = state.get(key, 0) + record[2]
    yield ("counted", key, state[key])


def total(state: dict[str, Any], key: str, record: tuple[str, str, int]) -> None:
    kind = f"{key}:{record[0]}"
    state[kind] = state.get(kind, 0) + 1


def word_of(record: tuple[str, str, int]) -> str | None:
    return record[1] or None


def letter_of(record: tuple[str, str, int]) -> str | None:
    return record[1][:1] or None


OPERATORS = [
    Operator("parse", process=parse),
    Operator("count", key=word_of, process=count),
    Operator("total", key=letter_of, process=total),
]


def total_by_key(state: dict[str, Any], key: str, record: tuple[str, str, int]) -> None:
    kinds = state.setdefault(key, {})
    kinds[record[0]] = kinds.get(record[0], 0) + 1


def added_kinds(first: dict[str, int], second: dict[str, int]) -> dict[str, int]:
    return {kind: first.get(kind, 0) + second.get(kind, 0) for kind in sorted({*first, *second})}


SAMPLE = [("word", "a1", 1), ("counted", "a1", 1), ("word", "a2", 1)]
OPERATORS_BY_KEY = [
    Operator("parse", process=parse, state_by_key=True),
    Operator("count", key=word_of, process=count, state_by_key=True),
    Operator(
        "total",
        key=letter_of,
        process=total_by_key,
        state_by_key=True,
        merge=StateMerge(added_kinds, SAMPLE),
    ),
]


def topology_of(policy: JobPolicy | None = None) -> Topology:
    return build_topology(JOB, OPERATORS, policy or policy_of())


def topology_by_key(policy: JobPolicy | None = None) -> Topology:
    return build_topology(JOB, OPERATORS_BY_KEY, policy or policy_of())
