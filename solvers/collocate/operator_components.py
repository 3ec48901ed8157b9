"""Component-based parallelisation ([AUTODASP17], CBP): operators that can share one partitioning.

A component is a connected set of operators whose partition keys have a common attribute. Traffic
inside of a component stays on its node. Compatibility is not transitive, so components overlap and
one must choose. The slides do not say how. Here every operator gets one attribute of its key as a
label. An edge is saved exactly if both ends have the same label, and connected sets with one label
are components. So the best choice is the labelling that saves the most traffic. Branch and bound
finds it for jobs of usual size, a local search for larger ones. The result is advice, not a plan.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ballast.contracts.errors import InvalidInput
from solvers.collocate.clusters import connected_sets

MOST_STEPS = 200_000
"""Branches after which the search ends without a proof."""
MOST_OPERATORS = 400
"""Most operators for branch and bound: every operator is a level of the recursion."""
RESTARTS = 20


@dataclass(frozen=True, slots=True)
class Component:
    """Operators that can share a partitioning, by any of their common ``attributes``."""

    operators: tuple[str, ...]
    attributes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Advice:
    """The components that save the most traffic.

    Attributes:
        components: Disjoint components of at least two operators.
        saved_rate: Traffic inside of components.
        total_rate: All traffic between operators.
        is_proven: Whether no choice saves more.
    """

    components: tuple[Component, ...]
    saved_rate: float
    total_rate: float
    is_proven: bool


Edge = tuple[str, str, float]
"""Sender, receiver and rate."""


def are_compatible(keys: Mapping[str, frozenset[str]], operators: Sequence[str]) -> bool:
    """Return whether the partition keys have a common attribute [AUTODASP17]."""
    return bool(frozenset.intersection(*(keys[o] for o in operators)))


def advise(keys: Mapping[str, frozenset[str]], edges: Sequence[Edge], *, seed: int = 0) -> Advice:
    """Find the components that keep the most traffic on its node.

    Args:
        keys: Partition key of each operator, as a set of attributes.
        edges: Traffic between operators.
        seed: Seed of the local search.

    Raises:
        InvalidInput: an edge names an unknown operator, or its rate is not a number >= 0.
    """
    _check(keys, edges)
    used = [(a, b, rate) for a, b, rate in edges if a != b]
    labelling = _Labelling(keys, used)
    proven = len(keys) <= MOST_OPERATORS and labelling.branch()
    if not proven:
        labelling.improve(seed)
    labels = labelling.best
    return Advice(
        _components(keys, used, labels),
        sum(rate for a, b, rate in used if _is_saved(labels, a, b)),
        sum(rate for _, _, rate in used),
        proven,
    )


def _check(keys: Mapping[str, frozenset[str]], edges: Sequence[Edge]) -> None:
    for a, b, rate in edges:
        for name in (a, b):
            if name not in keys:
                raise InvalidInput(
                    f"an edge names the unknown operator {name!r}",
                    value=name,
                    remedy="give its partition key, an empty set if it has none",
                )
        if not (math.isfinite(rate) and rate >= 0):
            raise InvalidInput(f"the edge {a!r} to {b!r} has the rate {rate!r}", allowed=">= 0")


def _is_saved(labels: Mapping[str, str | None], a: str, b: str) -> bool:
    return labels[a] is not None and labels[a] == labels[b]


def _components(
    keys: Mapping[str, frozenset[str]], edges: Sequence[Edge], labels: Mapping[str, str | None]
) -> tuple[Component, ...]:
    names = list(keys)
    index = {name: i for i, name in enumerate(names)}
    saved = [(index[a], index[b]) for a, b, _ in edges if _is_saved(labels, a, b)]
    sets = connected_sets(len(names), [a for a, _ in saved], [b for _, b in saved])
    components = []
    for members in sets:
        operators = tuple(names[i] for i in members.tolist())
        common = frozenset.intersection(*(keys[o] for o in operators))
        components.append(Component(operators, tuple(sorted(common))))
    return tuple(components)


class _Labelling:
    """A search for labels: one attribute per operator, or None where its key is empty."""

    def __init__(self, keys: Mapping[str, frozenset[str]], edges: Sequence[Edge]) -> None:
        self.keys = keys
        self.edges: dict[str, dict[str, float]] = {name: {} for name in keys}
        for a, b, rate in edges:
            self.edges[a][b] = self.edges[a].get(b, 0.0) + rate
            self.edges[b][a] = self.edges[b].get(a, 0.0) + rate
        # Heavy operators first: their labels decide the most, so the bound cuts early.
        self.order = sorted(keys, key=lambda o: (-sum(self.edges[o].values()), o))
        self.best: dict[str, str | None] = {o: min(keys[o], default=None) for o in keys}
        self.best_saved = self._saved(self.best)
        self.steps = 0

    def _saved(self, labels: Mapping[str, str | None]) -> float:
        return sum(
            rate
            for a, row in self.edges.items()
            for b, rate in row.items()
            if a < b and _is_saved(labels, a, b)
        )

    def branch(self) -> bool:
        """Search depth first; the bound counts every open compatible edge as saved.

        Returns:
            Whether the search is complete, so that the labels are proven to be the best.
        """
        open_rate = sum(
            rate
            for a, row in self.edges.items()
            for b, rate in row.items()
            if a < b and self.keys[a] & self.keys[b]
        )
        self._descend(0, {}, 0.0, open_rate)
        return self.steps < MOST_STEPS

    def _descend(
        self, depth: int, labels: dict[str, str | None], saved: float, open_rate: float
    ) -> None:
        self.steps += 1
        if self.steps >= MOST_STEPS or saved + open_rate <= self.best_saved:
            return
        if depth == len(self.order):
            self.best, self.best_saved = dict(labels), saved
            return
        name = self.order[depth]
        decided = {
            other: rate
            for other, rate in self.edges[name].items()
            if other in labels and self.keys[name] & self.keys[other]
        }
        closed = sum(decided.values())
        for label in self._choices(name, labels):
            gained = sum(r for other, r in decided.items() if label and labels[other] == label)
            labels[name] = label
            self._descend(depth + 1, labels, saved + gained, open_rate - closed)
            del labels[name]

    def _choices(self, name: str, labels: Mapping[str, str | None]) -> list[str | None]:
        """Return the labels to try, most saved first.

        Attributes that no neighbour has save nothing, so one of them is enough.
        """
        near = set().union(*(self.keys[other] for other in self.edges[name]), set())
        useful = sorted(self.keys[name] & near) or sorted(self.keys[name])[:1]
        ranked: list[str | None] = []
        ranked += sorted(useful, key=lambda a: (-self._rate_to(name, a, labels), a))
        return ranked or [None]

    def _rate_to(self, name: str, label: str | None, labels: Mapping[str, str | None]) -> float:
        return sum(r for other, r in self.edges[name].items() if labels.get(other) == label)

    def improve(self, seed: int) -> None:
        """Search locally with restarts, one operator at a time, where a proof takes too long."""
        random = np.random.default_rng(seed)
        for attempt in range(RESTARTS):
            labels = dict(self.best) if attempt == 0 else self._random_labels(random)
            while self._one_better(labels):
                pass
            saved = self._saved(labels)
            if saved > self.best_saved:
                self.best, self.best_saved = dict(labels), saved

    def _random_labels(self, random: np.random.Generator) -> dict[str, str | None]:
        return {
            o: (sorted(key)[int(random.integers(len(key)))] if key else None)
            for o, key in self.keys.items()
        }

    def _one_better(self, labels: dict[str, str | None]) -> bool:
        changed = False
        for name, key in self.keys.items():
            rated: dict[str | None, float] = dict.fromkeys([None, *sorted(key)], 0.0)
            for other, rate in self.edges[name].items():
                if labels[other] in rated:
                    rated[labels[other]] += rate
            del rated[None]
            if rated and max(rated.values()) > rated[labels[name]] + 1e-12:
                labels[name] = max(rated, key=lambda a: rated[a])
                changed = True
        return changed
