"""Parameters of a scaling decision: the method, its boundaries, and the limits of all methods."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from ballast.contracts.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Boundaries:
    """Utilisation (1.0 is full): above ``upper`` grow, below ``lower`` shrink, aim at ``target``.

    The distance between them is the hysteresis. A swing of +-a around the level stays inside if
    ``upper / target > 1 + a`` and ``lower / target < 1 - a``.
    """

    lower: float = 0.4
    target: float = 0.65
    upper: float = 0.85

    def __post_init__(self) -> None:
        values = (self.lower, self.target, self.upper)
        if not all(math.isfinite(v) for v in values) or not 0 <= self.lower < self.upper <= 1:
            raise InvalidInput(
                f"the thresholds cross: lower {self.lower}, upper {self.upper}",
                value=values,
                allowed="0 <= lower < target < upper <= 1",
            )
        if not self.lower < self.target < self.upper:
            raise InvalidInput(
                f"target {self.target} is not between lower {self.lower} and upper {self.upper}",
                value=values,
                allowed="0 <= lower < target < upper <= 1",
            )

    @classmethod
    def around_middle(cls, v: float, u: float) -> Boundaries:
        """[AUTODASP17], ELB: load of an instance in [v, u] and close to (u + v) / 2."""
        return cls(lower=v, target=(u + v) / 2, upper=u)


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything that a scaling decision depends on besides the observation.

    ``max_nodes`` limits all clusters together [DODO, 7.1.1]. ``max_step_out`` and ``max_step_in``
    are shares of the present nodes, and at least one node. ``billing_s`` is the period that is paid
    in full once it begins (an hour in [DODO]); None if nodes are billed by use. ``interval_s`` is
    the time between two rounds. A cluster that is full in more than the share ``max_full_windows``
    of the windows counts as above the boundary, because its measured use does not show the demand.
    """

    method: str = "thresholds"
    boundaries: Boundaries = field(default_factory=Boundaries)
    resource: str = "cpu"
    limits: Mapping[str, Boundaries] = field(default_factory=dict)
    min_nodes: int = 1
    max_nodes: int | None = None
    new_node_capacity: Mapping[str, float] = field(default_factory=dict)
    interval_s: float = 600.0
    launch_s: float = 300.0
    shutdown_s: float = 60.0
    billing_s: float | None = None
    cool_down_s: float = 1200.0
    stabilisation_rounds: int = 3
    min_benefit: float = 0.1
    max_step_out: float = 1.0
    max_step_in: float = 0.5
    min_coverage: float = 0.5
    max_full_windows: float = 0.1
    catch_up_s: float = 1800.0
    restart_s: float = 60.0
    backlog_threshold_s: float = 300.0
    busy_per_node: float = 1.0
    season_s: float = 86_400.0
    horizon_s: float | None = None
    memory_rounds: int = 2016

    def __post_init__(self) -> None:
        self._check_counts()
        self._check_seconds()
        self._check_shares()
        for resource, capacity in self.new_node_capacity.items():
            if not (math.isfinite(capacity) and capacity > 0):
                raise InvalidInput(
                    f"new_node_capacity of {resource!r} is {capacity!r}", allowed="a number > 0"
                )

    def boundaries_of(self, resource: str) -> Boundaries:
        return self.limits.get(resource, self.boundaries)

    @property
    def ahead_s(self) -> float:
        """Horizon of a forecast: until the nodes of the next round can have started."""
        return self.horizon_s if self.horizon_s is not None else self.interval_s + self.launch_s

    def _check_counts(self) -> None:
        for name in ("min_nodes", "stabilisation_rounds", "memory_rounds"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name} is {getattr(self, name)}", allowed="at least 1")
        if self.max_nodes is not None and self.max_nodes < self.min_nodes:
            raise InvalidInput(
                f"max_nodes {self.max_nodes} is below min_nodes {self.min_nodes}",
                allowed="min_nodes <= max_nodes",
            )
        if self.memory_rounds < self.stabilisation_rounds:
            raise InvalidInput(
                f"memory_rounds {self.memory_rounds} is below stabilisation_rounds "
                f"{self.stabilisation_rounds}"
            )

    def _check_seconds(self) -> None:
        zero_allowed = ("launch_s", "shutdown_s", "cool_down_s", "restart_s", "backlog_threshold_s")
        above_zero = ("interval_s", "catch_up_s", "season_s", "busy_per_node")
        optional = [n for n in ("billing_s", "horizon_s") if getattr(self, n) is not None]
        for name in zero_allowed:
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise InvalidInput(f"{name} is {getattr(self, name)!r}", allowed="a number >= 0")
        for name in (*above_zero, *optional):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise InvalidInput(f"{name} is {getattr(self, name)!r}", allowed="a number > 0")

    def _check_shares(self) -> None:
        for name in ("min_benefit", "max_step_in", "min_coverage", "max_full_windows"):
            if not 0 <= getattr(self, name) <= 1:
                raise InvalidInput(f"{name} is {getattr(self, name)!r}", allowed="0 to 1")
        if not (math.isfinite(self.max_step_out) and self.max_step_out > 0):
            raise InvalidInput(f"max_step_out is {self.max_step_out!r}", allowed="a number > 0")
