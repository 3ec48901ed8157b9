"""Messages between the engine service and the members of a group, as JSON.

``ballast-<job>-plan`` has one partition and is compacted: its last record is the plan that the
members follow. ``ballast-<job>-reports`` has one partition: members report each window, and each
take-up, into it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

FORMAT = 1
LARGEST = 1e15
"""No number in a report may be as large; NaN and infinity are neither smaller."""
WINDOW, TAKE_UP = "window", "take_up"


class UnreadableMessage(ValueError):
    """A record is not a message of this format."""


def plan_topic(job: str) -> str:
    """The topic of a job's plan."""
    return f"ballast-{job}-plan"


def report_topic(job: str) -> str:
    """The topic of the reports of a job's members."""
    return f"ballast-{job}-reports"


@dataclass(frozen=True)
class PlanMessage:
    """The plan that the members of a group follow; version 0 has no placement."""

    job: str
    version: int
    window_ms: int
    placement: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Node of each partition, by topic."""
    plan_id: str = ""
    moves: int = 0
    """Partitions that had another owner when the plan was sent."""

    @property
    def node_by_partition(self) -> dict[tuple[str, int], str]:
        """The node of each (topic, partition)."""
        return {
            (topic, number): node
            for topic, nodes in self.placement.items()
            for number, node in enumerate(nodes)
        }

    def to_bytes(self) -> bytes:
        """The record's value, which :meth:`from_bytes` reads."""
        return _to_bytes(asdict(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> PlanMessage:
        """The plan in a record.

        Raises:
            UnreadableMessage: it is no plan.
        """
        try:
            values = _from_bytes(data)
        except (TypeError, ValueError) as error:
            raise UnreadableMessage(f"not a plan: {error!r}") from error
        return cls.from_fields(values)

    @classmethod
    def from_fields(cls, values: Mapping[str, Any]) -> PlanMessage:
        """The plan with these fields.

        Raises:
            UnreadableMessage: it is no plan.
        """
        try:
            placement = {str(t): tuple(map(str, n)) for t, n in values["placement"].items()}
            message = cls(
                str(values["job"]), int(values["version"]), int(values["window_ms"]), placement,
                str(values["plan_id"]), int(values["moves"]),
            )  # fmt: skip
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UnreadableMessage(f"not a plan: {error!r}") from error
        if message.version < 0 or message.window_ms < 1:
            raise UnreadableMessage(
                f"not a plan: version {message.version}, window_ms {message.window_ms}"
            )
        return message


@dataclass(frozen=True)
class PartitionReport:
    """What a member did for a partition in a window."""

    topic: str
    partition: int
    records: int
    bytes: int
    cpu_ms: float
    busy_ms: float
    is_whole: bool
    """Whether the member held the partition from the start of the window to its end."""


@dataclass(frozen=True)
class WindowReport:
    """What a member did in a window; a member without partitions reports too."""

    node_id: str
    process_id: str
    start_ms: int
    length_ms: int
    version: int
    """The plan version that the member's partitions were assigned under at the window's end."""
    heartbeats: int
    """Polls of the member."""
    is_whole: bool
    """Whether the member measured from the start of the window to its end."""
    partitions: tuple[PartitionReport, ...] = ()

    @property
    def end_ms(self) -> int:
        """End of the window, exclusive."""
        return self.start_ms + self.length_ms


@dataclass(frozen=True)
class TakeUpReport:
    """How long a member did not process while it took a plan up."""

    node_id: str
    process_id: str
    version: int
    pause_ms: float


Report = WindowReport | TakeUpReport


def report_to_bytes(report: Report) -> bytes:
    """The record's value, which :func:`report_from_bytes` reads."""
    kind = WINDOW if isinstance(report, WindowReport) else TAKE_UP
    return _to_bytes({"kind": kind, **asdict(report)})


def report_from_bytes(data: bytes) -> Report:
    """The report in a record.

    Raises:
        UnreadableMessage: it is no report.
    """
    try:
        values = _from_bytes(data)
        kind = values.pop("kind")
        if kind == TAKE_UP:
            return _checked(TakeUpReport(**values))
        if kind == WINDOW:
            parts = tuple(_checked(PartitionReport(**part)) for part in values.pop("partitions"))
            return _checked(WindowReport(**values, partitions=parts))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UnreadableMessage(f"not a report: {error!r}") from error
    raise UnreadableMessage(f"not a report: kind {kind!r}; allowed: {WINDOW}, {TAKE_UP}")


Checked = TypeVar("Checked", WindowReport, TakeUpReport, PartitionReport)
_TYPES: Mapping[str, tuple[type, ...]] = {
    "str": (str,), "int": (int,), "float": (int, float), "bool": (bool,),
}  # fmt: skip


def _checked(report: Checked) -> Checked:
    """The report itself, if every plain field has the type and a range that it may have."""
    for name, kind in type(report).__annotations__.items():
        if kind in _TYPES:
            _check_value(name, kind, getattr(report, name))
    return report


def _check_value(name: str, kind: str, value: Any) -> None:
    """Refuses a value of another type, and a number that no window can have."""
    is_type = isinstance(value, _TYPES[kind]) and (kind == "bool" or not isinstance(value, bool))
    if not is_type:
        raise TypeError(f"{name} is {value!r}")
    if kind in ("int", "float") and not 0 <= float(value) < LARGEST:
        raise ValueError(f"{name} is {value!r}")


def _to_bytes(values: Mapping[str, Any]) -> bytes:
    return json.dumps({"format": FORMAT, **values}, separators=(",", ":")).encode()


def _from_bytes(data: bytes) -> dict[str, Any]:
    values = json.loads(data)
    if not isinstance(values, dict):
        raise TypeError(f"a {type(values).__name__}")
    found = values.pop("format", None)
    if found != FORMAT:
        raise ValueError(f"format {found!r}; allowed: {FORMAT}")
    return values
