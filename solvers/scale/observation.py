"""What a scaling policy sees: nodes, sources, operators and edges of one statistics period.

A value that was not measured is ``None`` (or NaN in a series), never zero. The job is then not
scaled, and the reason names what is missing. Impossible values, such as a capacity of zero, raise
InvalidInput on construction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ballast.contracts.errors import InvalidInput
from solvers.model.problem import ALIVE, DEAD, DRAINING

LAUNCHING = "launching"
"""State of a node that was requested and has not started: it counts, and has no metrics yet."""
STATES = (ALIVE, DRAINING, LAUNCHING, DEAD)

Series = Sequence[float]


@dataclass(frozen=True, slots=True)
class NodeSample:
    """A node over the period; ``use`` is in the units of the capacity, one value a window."""

    node_id: str
    capacity: Mapping[str, float]
    use: Mapping[str, Series] | None
    state: str = ALIVE
    cluster: str = ""
    started_at_s: float | None = None

    def __post_init__(self) -> None:
        if self.state not in STATES:
            raise InvalidInput(
                f"state of node {self.node_id!r} is {self.state!r}",
                value=self.state,
                allowed=", ".join(STATES),
            )
        if not self.capacity:
            raise InvalidInput(f"node {self.node_id!r} has no capacity of any resource")
        for resource, value in self.capacity.items():
            _check_positive(f"{resource} capacity of node {self.node_id!r}", value)
        for resource, series in (self.use or {}).items():
            if any(value < 0 for value in series):
                raise InvalidInput(
                    f"{resource} use of node {self.node_id!r} has a value < 0",
                    allowed="numbers >= 0, or NaN where nothing was measured",
                )

    @property
    def is_measured(self) -> bool:
        """Whether every resource with a capacity has a use in every window."""
        use = self.use or {}
        return all(
            len(use.get(r, ())) > 0 and all(map(math.isfinite, use[r])) for r in self.capacity
        )

    def level(self, resource: str) -> float:
        """Mean use over the windows of the period; swings cancel out in it."""
        series = (self.use or {})[resource]
        return math.fsum(series) / len(series)


@dataclass(frozen=True, slots=True)
class SourceSample:
    """Records per second that arrive from a source, and its backlog in records."""

    source_id: str
    operator_id: str
    arrival_rate: float | None
    backlog: float | None

    def __post_init__(self) -> None:
        for name in ("arrival_rate", "backlog"):
            _check_not_negative(f"{name} of source {self.source_id!r}", getattr(self, name))

    @property
    def is_measured(self) -> bool:
        return _is_known(self.arrival_rate) and _is_known(self.backlog)


@dataclass(frozen=True, slots=True)
class OperatorSample:
    """An operator over the period: records in per second, and busy seconds per second.

    ``busy`` is the sum over all instances (``busy_ms`` of a window over its length): three
    instances that are always busy have 3.0. ``max_parallelism`` is the number of key groups.
    """

    operator_id: str
    records_rate: float | None
    busy: float | None
    max_parallelism: int | None = None

    def __post_init__(self) -> None:
        for name in ("records_rate", "busy"):
            _check_not_negative(f"{name} of operator {self.operator_id!r}", getattr(self, name))
        if self.max_parallelism is not None and self.max_parallelism < 1:
            raise InvalidInput(
                f"max_parallelism of operator {self.operator_id!r} is {self.max_parallelism}",
                allowed="a whole number >= 1",
            )

    @property
    def is_measured(self) -> bool:
        return _is_known(self.records_rate) and _is_known(self.busy)


@dataclass(frozen=True, slots=True)
class Edge:
    """Records per second from one operator to another."""

    from_id: str
    to_id: str
    rate: float

    def __post_init__(self) -> None:
        _check_not_negative(f"rate of the edge {self.from_id!r} -> {self.to_id!r}", self.rate)


@dataclass(frozen=True, slots=True)
class HotNode:
    """The fullest node of the potential allocation, and what balancing could do about it.

    ``levelled`` is the utilisation of the fullest node if moves cost nothing, ``with_one_more`` the
    same with another node. ``largest`` is the load of the largest key group as a share of one
    node's capacity. All are of the same resource; 1.0 is full.
    """

    node_id: str
    resource: str
    utilisation: float
    levelled: float
    with_one_more: float
    largest: float
    largest_key_group: str
    largest_operator: str
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class Observation:
    """One statistics period; ``at_s`` is its end in seconds since 1970."""

    at_s: float
    window_s: float
    nodes: tuple[NodeSample, ...]
    sources: tuple[SourceSample, ...] = ()
    operators: tuple[OperatorSample, ...] = ()
    edges: tuple[Edge, ...] = ()
    hot: HotNode | None = None
    expected_nodes: tuple[str, ...] = field(default=())
    expected_sources: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        if not math.isfinite(self.at_s):
            raise InvalidInput(f"at_s is {self.at_s!r}", allowed="seconds since 1970")
        _check_positive("window_s", self.window_s)
        if not self.nodes:
            raise InvalidInput("the job has no node", remedy="give at least one node")
        _check_once("node", [n.node_id for n in self.nodes])
        _check_once("source", [s.source_id for s in self.sources])
        _check_once("operator", [o.operator_id for o in self.operators])

    @property
    def clusters(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(n.cluster for n in self.nodes))

    @property
    def covered_s(self) -> float:
        """Seconds that the shortest series of a node covers."""
        lengths = [
            len(series) for n in self.nodes if n.use is not None for series in n.use.values()
        ]
        return min(lengths, default=0) * self.window_s

    def missing(self) -> tuple[str, ...]:
        """Names of what lacks metrics, in a stable order: ``node n3``, ``source orders``."""
        silent = [
            f"node {n.node_id}"
            for n in self.nodes
            if n.state in (ALIVE, DRAINING) and not n.is_measured
        ]
        known = {n.node_id for n in self.nodes}
        silent += [f"node {name}" for name in self.expected_nodes if name not in known]
        silent += [f"source {s.source_id}" for s in self.sources if not s.is_measured]
        heard = {s.source_id for s in self.sources}
        silent += [f"source {name}" for name in self.expected_sources if name not in heard]
        return tuple(silent)


def _is_known(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _check_positive(what: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise InvalidInput(f"{what} is {value!r}", value=value, allowed="a number > 0")


def _check_not_negative(what: str, value: float | None) -> None:
    if value is not None and value < 0:
        raise InvalidInput(f"{what} is {value!r}", value=value, allowed="a number >= 0")


def _check_once(what: str, names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidInput(f"{what} {twice[0]!r} is listed more than once")
