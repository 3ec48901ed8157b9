"""Nodes that are requested, start after a delay, drain and end, and their cost by the hour."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from solvers.model.problem import ALIVE, DRAINING
from solvers.scale import LAUNCHING

HOUR_S = 3600.0


@dataclass(frozen=True)
class Machine:
    """The times of a node. It is paid for from its request until its end."""

    name: str
    cluster: str
    asked_at_s: float
    ready_at_s: float
    is_draining: bool = False
    ended_at_s: float | None = None

    def state(self, now_s: float) -> str:
        if self.is_draining:
            return DRAINING
        return ALIVE if now_s >= self.ready_at_s else LAUNCHING

    def paid_s(self, now_s: float) -> float:
        return (now_s if self.ended_at_s is None else self.ended_at_s) - self.asked_at_s


class Fleet:
    """All nodes by name, also those that ended. A new node runs ``launch_s`` after its request."""

    def __init__(self, launch_s: float) -> None:
        self.launch_s = launch_s
        self._machines: dict[str, Machine] = {}

    def start(self, names: Iterable[str], cluster: str = "") -> None:
        """Add the nodes that exist when the run begins."""
        for name in names:
            self._machines[name] = Machine(name, cluster, 0.0, 0.0)

    def launch(self, names: Iterable[str], now_s: float, cluster: str = "") -> None:
        for name in names:
            if name in self._machines:
                raise ValueError(f"node {name} was asked for before")
            self._machines[name] = Machine(name, cluster, now_s, now_s + self.launch_s)

    def drain(self, names: Iterable[str], *, back: bool = False) -> None:
        for name in names:
            self._machines[name] = replace(self._machines[name], is_draining=not back)

    def end(self, names: Iterable[str], now_s: float) -> None:
        for name in names:
            self._machines[name] = replace(self._machines[name], ended_at_s=now_s)

    def machines(self, cluster: str | None = None) -> list[Machine]:
        """The nodes that have not ended, in the order of their requests."""
        return [
            m
            for m in self._machines.values()
            if m.ended_at_s is None and cluster in (None, m.cluster)
        ]

    def ready(self, now_s: float, cluster: str | None = None) -> list[Machine]:
        return [m for m in self.machines(cluster) if m.state(now_s) != LAUNCHING]

    def instance_hours(self, now_s: float) -> float:
        return sum(m.paid_s(now_s) for m in self._machines.values()) / HOUR_S

    def billed_hours(self, now_s: float) -> int:
        """[DODO, 7.1.1]: an hour that was begun is paid in full."""
        return sum(max(1, math.ceil(m.paid_s(now_s) / HOUR_S)) for m in self._machines.values())
