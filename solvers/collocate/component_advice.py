"""Messages about operators that could be one component ([AUTODASP17], CBP).

This is advice, not a plan, because only the author of an operator can change its partitioning.
Before there are metrics the advice uses operators, keys and edges of the policy. Later it uses the
measured traffic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ballast.contracts.policy import JobPolicy
from solvers.collocate.operator_components import Component, Edge, advise
from solvers.model.problem import Problem

SHOWN = 5
"""Components that are shown, those that save the most first."""
NAMED = 8
"""Operators of a component that are shown."""

Rates = Mapping[tuple[str, str], float]


@dataclass(frozen=True, slots=True)
class _Traffic:
    """Records per second between operators.

    Attributes:
        rate: All records.
        remote: Records that leave their node.
    """

    rate: Rates
    remote: Rates


def advice_before_metrics(policy: JobPolicy) -> list[str]:
    """Return messages by the policy alone, with equal weight for every edge.

    Returns:
        One message per component; empty if no partition keys have a common attribute.
    """
    edges = [(edge.source, edge.target, 1.0) for edge in policy.edges]
    lines = []
    for component in _components(policy, edges):
        inside = _inside(component, edges)
        lines.append(
            f"{_named(component)} could be one component, partitioned by "
            f"{_attributes(component)}: {len(inside)} of {len(edges)} edges would never leave a "
            "node"
        )
    return _shown(lines)


def advice_from_traffic(policy: JobPolicy, problem: Problem) -> list[str]:
    """Return messages by the measured traffic.

    Returns:
        One message per component; empty without traffic or common attributes.
    """
    traffic = _traffic(problem)
    total = sum(traffic.rate.values())
    if total <= 0:
        return []
    edges = [(a, b, rate) for (a, b), rate in traffic.rate.items()]
    lines = []
    for component in _components(policy, edges):
        inside = _inside(component, edges)
        share, remote = (
            100.0 * sum(of[a, b] for a, b, _ in inside) / total
            for of in (traffic.rate, traffic.remote)
        )
        lines.append(
            f"{_named(component)} could be one component, partitioned by "
            f"{_attributes(component)}: {share:.1f} % of the traffic would never leave a node, "
            f"and {remote:.1f} % that now does would be saved"
        )
    return _shown(lines)


def _traffic(problem: Problem) -> _Traffic:
    source, target, rates = problem.traffic_from, problem.traffic_to, problem.traffic_rate
    if source is None or target is None or rates is None:
        return _Traffic({}, {})
    names, operator_of = np.unique(np.array(problem.operator_ids), return_inverse=True)
    pairs = operator_of[source] * len(names) + operator_of[target]
    is_remote = problem.current[source] != problem.current[target]
    rates_by_pair = [
        {
            (str(names[pair // len(names)]), str(names[pair % len(names)])): float(sums[pair])
            for pair in np.unique(pairs).tolist()
        }
        for sums in (
            np.bincount(pairs, weights=rates, minlength=len(names) ** 2),
            np.bincount(pairs, weights=rates * is_remote, minlength=len(names) ** 2),
        )
    ]
    return _Traffic(*rates_by_pair)


def _components(policy: JobPolicy, edges: Sequence[Edge]) -> list[Component]:
    """Return the components that save traffic, those that save the most first.

    Edges from or to operators that the policy does not list do not count.
    """
    keys = {operator.id: frozenset(operator.partition_key) for operator in policy.operators}
    advice = advise(keys, [edge for edge in edges if edge[0] in keys and edge[1] in keys])
    rated = [(sum(rate for _, _, rate in _inside(c, edges)), c) for c in advice.components]
    return [c for rate, c in sorted(rated, key=lambda r: (-r[0], r[1].operators)) if rate > 0]


def _inside(component: Component, edges: Sequence[Edge]) -> list[Edge]:
    members = set(component.operators)
    return [(a, b, rate) for a, b, rate in edges if a in members and b in members and a != b]


def _named(component: Component) -> str:
    names = component.operators
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return "operators " + ", ".join(names[:NAMED]) + more


def _attributes(component: Component) -> str:
    return " or ".join(component.attributes)


def _shown(lines: list[str]) -> list[str]:
    more = len(lines) - SHOWN
    return lines[:SHOWN] + ([f"and {more} more components"] if more > 0 else [])
