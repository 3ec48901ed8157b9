"""Loads that have to be level by themselves: those of each operator and each edge. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from solvers.model.concentration import concentration, fair_shares
from solvers.model.problem import FloatArray, IntArray, Problem


class LocalLoadKind(StrEnum):
    """What is measured of an operator or an edge."""

    OPERATOR = "operator"
    """The load of an operator, for one resource."""
    SENT = "sent"
    """The records of an edge, by the key groups that send them."""
    RECEIVED = "received"
    """The records of an edge, by the key groups that receive them."""


@dataclass(frozen=True, eq=False, slots=True)
class LocalLoad:
    """The load of one operator or the records of one edge, by key groups."""

    kind: LocalLoadKind
    name: str
    """Id of the operator, or both operators of the edge: ``a -> b``."""
    operator_id: str
    """The operator of the key groups."""
    resource: int
    """Index of the resource; of an edge, that of the first balanced resource."""
    key_groups: IntArray
    """[K]: indices of the key groups that have an amount."""
    amount: FloatArray
    """[K]: load or records per second of each."""
    variance: FloatArray | None
    """[K]: variance of each amount as a mean of the period; None if it is not known."""
    job_share: float
    """Part of the whole job's load or records, 0 to 1."""


@dataclass(frozen=True, eq=False, slots=True)
class EdgeTraffic:
    """The records between two operators: rows of the problem's traffic."""

    source: str
    target: str
    rows: IntArray
    """Indices of ``problem.traffic_rate``."""
    job_share: float

    @property
    def name(self) -> str:
        return f"{self.source} -> {self.target}"


def operator_loads(problem: Problem) -> Iterator[LocalLoad]:
    """The load of each operator for each balanced resource that has any."""
    names, groups_of = _by_operator(problem)
    error = None if problem.noise is None else problem.noise.error_variance
    totals = problem.load.sum(axis=0)
    for r in np.flatnonzero(problem.balanced_mask & (totals > 0)).tolist():
        for name, groups in zip(names, groups_of, strict=True):
            amount = problem.load[groups, r]
            yield LocalLoad(
                kind=LocalLoadKind.OPERATOR,
                name=name,
                operator_id=name,
                resource=r,
                key_groups=groups,
                amount=amount,
                variance=None if error is None else error[groups, r],
                job_share=float(amount.sum() / totals[r]),
            )


def operator_skew_pct(problem: Problem, assignment: IntArray, operator_id: str) -> float:
    """How far a node is above its fair share of an operator's load, in percent of that share.

    The largest over the nodes that stay and the balanced resources; at least 0.
    """
    groups = np.flatnonzero([name == operator_id for name in problem.operator_ids])
    worst = 0.0
    for r in np.flatnonzero(problem.balanced_mask).tolist():
        fair = fair_shares(problem.capacity[:, r], problem.staying)
        found = concentration(problem.load[groups, r], assignment[groups], fair)
        worst = worst if found is None else max(worst, found.above_pct)
    return worst


def edge_loads(problem: Problem, edges: list[EdgeTraffic]) -> Iterator[LocalLoad]:
    """The records of each edge, by senders and by receivers."""
    ends = (LocalLoadKind.SENT, problem.traffic_from), (LocalLoadKind.RECEIVED, problem.traffic_to)
    for edge in edges:
        for kind, groups_of_rows in ends:
            if groups_of_rows is not None:
                yield _edge_load(problem, edge, kind, groups_of_rows)


def edges_with_traffic(problem: Problem) -> list[EdgeTraffic]:
    """The pairs of operators between which records were measured, by name."""
    source, target, rate = problem.traffic_from, problem.traffic_to, problem.traffic_rate
    if source is None or target is None or rate is None or not rate.any():
        return []
    names, operator_of = _operators(problem)
    pairs, rows_of = _grouped(operator_of[source] * len(names) + operator_of[target])
    total = float(rate.sum())
    found = [
        EdgeTraffic(
            names[pair // len(names)],
            names[pair % len(names)],
            rows,
            float(rate[rows].sum()) / total,
        )
        for pair, rows in zip(pairs.tolist(), rows_of, strict=True)
    ]
    return [edge for edge in found if edge.job_share > 0]


def rate_variance(problem: Problem, rows: IntArray) -> FloatArray | None:
    """Variance of the mean rates of rows of traffic; None if it is not known."""
    error = None if problem.noise is None else problem.noise.traffic_error
    return None if error is None else np.asarray(error[rows] ** 2)


def _edge_load(
    problem: Problem, edge: EdgeTraffic, kind: LocalLoadKind, groups_of_rows: IntArray
) -> LocalLoad:
    rates = np.zeros(0) if problem.traffic_rate is None else problem.traffic_rate[edge.rows]
    groups, at = np.unique(groups_of_rows[edge.rows], return_inverse=True)
    variance = rate_variance(problem, edge.rows)
    return LocalLoad(
        kind=kind,
        name=edge.name,
        operator_id=edge.source if kind is LocalLoadKind.SENT else edge.target,
        resource=int(np.argmax(problem.balanced_mask)),
        key_groups=groups,
        amount=_sums(at, rates),
        variance=None if variance is None else _sums(at, variance),
        job_share=edge.job_share,
    )


def _sums(at: IntArray, values: FloatArray) -> FloatArray:
    return np.asarray(np.bincount(at, weights=values), dtype=np.float64)


def _by_operator(problem: Problem) -> tuple[list[str], list[IntArray]]:
    """Operators by name, and the key groups of each."""
    names, operator_of = _operators(problem)
    _, groups_of = _grouped(operator_of)
    return names, groups_of


def _operators(problem: Problem) -> tuple[list[str], IntArray]:
    """Operators by name, and the index of each key group's operator among them."""
    names = sorted(set(problem.operator_ids))
    index = {name: i for i, name in enumerate(names)}
    return names, np.array([index[name] for name in problem.operator_ids], dtype=np.int64)


def _grouped(codes: IntArray) -> tuple[IntArray, list[IntArray]]:
    """The distinct codes, and the rows of each."""
    order = np.argsort(codes, kind="stable")
    distinct, starts = np.unique(codes[order], return_index=True)
    return distinct, np.split(order, starts[1:])
