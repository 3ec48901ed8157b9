"""Sentences about local skew leave out what follows from another one, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np

from solvers.planner.local_loads import LocalLoad, LocalLoadKind
from solvers.planner.local_skew import LocalSkew, SkewFinding, SkewScope, SkewStatus
from solvers.planner.skew_text import skew_sentences


def finding(kind: LocalLoadKind, name: str, place: str, share: float, **rest: Any) -> SkewFinding:
    load = LocalLoad(kind, name, "b", 0, np.arange(2), np.ones(2), None, 0.5)
    fields = {"scope": SkewScope.NODE, "resource": "cpu", **rest}
    return SkewFinding(
        kind=kind, name=name, place=place, share_pct=share, above_pct=6 * share - 100, load=load,
        status=SkewStatus.SKEWED, **fields,
    )  # fmt: skip


def test_records_on_another_node_than_the_skewed_operator_are_named() -> None:
    operator = finding(LocalLoadKind.OPERATOR, "b", "node-1", 60.0)
    there = finding(LocalLoadKind.RECEIVED, "a -> b", "node-1", 60.0)
    elsewhere = finding(LocalLoadKind.RECEIVED, "a -> b", "node-5", 80.0)
    assert len(skew_sentences(LocalSkew((operator, there)))) == 1
    first, _ = skew_sentences(LocalSkew((operator, elsewhere)))
    assert first.startswith("node node-5 receives 80 % of the records of edge a -> b")


def test_each_node_that_an_operator_is_skewed_on_explains_its_records() -> None:
    memory = finding(LocalLoadKind.OPERATOR, "b", "node-2", 70.0, resource="memory")
    operator = finding(LocalLoadKind.OPERATOR, "b", "node-1", 60.0)
    there = finding(LocalLoadKind.RECEIVED, "a -> b", "node-1", 60.0)
    assert len(skew_sentences(LocalSkew((operator, memory, there)))) == 2
