"""Real Jobs 2, 3 and 4 of [ICDE17, 5.4] on the flights; each extends the one before.

Real Job 2 extracts delays and sums them by airplane and year. Real Job 3 also sums them by route.
Real Job 4 also reads the weather, scores its rain, joins each route's flights with the score,
sums delays by courier and score, and stores the sums. docs/papers.md has the interpretation of the
paper and the limits of three weather stations.

The library has one source, so the two inputs of Real Job 4 are one stream in order of time. Weather
lines have a tag (weather.py), by which the first operator separates them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ballast.contracts.policy import JobPolicy, parse_policy
from ballast.streaming import Operator, StreamingJob
from examples.flights.operators import (
    FIELDS,
    SOURCE_KEY,
    add_delay,
    airplane_of,
    extract_delays,
    minutes_of,
    sum_by_airplane,
)
from examples.flights.weather import WEATHER_TAG

NODES = 20
KEY_GROUPS_PER_NODE = 5
"""As in 5.4: twenty worker nodes, five key groups per operator and node."""

# The largest rain of a station on one day in the table, in hundredths of an inch. The paper scores
# by the maximum "historically measured", so it is known before the stream begins.
HIGHEST_RAIN = {"EWR": 371, "JFK": 368, "LGA": 315}

WEATHER_SOURCE_KEY = (
    f"CASE WHEN startswith(value, '{WEATHER_TAG},') THEN split_part(value, ',', 2)"
    f" ELSE {SOURCE_KEY} END"
)


class Flight(NamedTuple):
    """The fields of a flight that Real Jobs 3 and 4 use."""

    tailnum: str | None
    year: str
    origin: str
    dest: str
    carrier: str
    day: str
    arrival_delay: int | None


class Weather(NamedTuple):
    """A day at a station; rain in hundredths of an inch."""

    station: str
    day: str
    rain: int


class Leg(NamedTuple):
    """A flight that is sent to the join."""

    route: str
    day: str
    carrier: str
    arrival_delay: int | None


class NewRoute(NamedTuple):
    """A new route, sent to the station that scores its days."""

    route: str
    station: str


class RainScore(NamedTuple):
    """The rain on a route on a day, 0 to 100."""

    route: str
    day: str
    score: int


class ScoredFlight(NamedTuple):
    """A flight with the rain score of its route and day."""

    carrier: str
    score: int
    arrival_delay: int | None


class CourierSums(NamedTuple):
    """A courier's current sums for one interval of scores: totals, not differences."""

    carrier: str
    interval: str
    flights: int
    arrived: int
    delay: int


def extract_flights(_state: dict[str, Any], _key: str, line: dict[str, Any]) -> Iterator[Flight]:
    """Parse the text of a flight."""
    yield _flight(line["value"])


def read_inputs(
    _state: dict[str, Any], _key: str, line: dict[str, Any]
) -> Iterator[Flight | Weather]:
    """Parse a line of the merged stream: a flight, or the weather of a day."""
    text = line["value"]
    if text.startswith(WEATHER_TAG):
        _, station, day, inches = text.split(",")
        yield Weather(station, day, round(100 * float(inches)))
    else:
        yield _flight(text)


def _flight(text: str) -> Flight:
    flight = dict(zip(FIELDS, text.split(","), strict=True))
    return Flight(
        flight["tailnum"] or None,
        flight["year"],
        flight["origin"],
        flight["dest"],
        flight["carrier"],
        f"{flight['year']}-{flight['month']:0>2}-{flight['day']:0>2}",
        minutes_of(flight["arr_delay"]),
    )


def sum_by_route(state: dict[str, Any], key: str, flight: Flight) -> None:
    """Sum by route: flights, flights that arrived, arrival delays."""
    add_delay(state.setdefault(key, [0, 0, 0]), flight.arrival_delay)


def sum_and_send_by_route(
    state: dict[str, Any], key: str, flight: Flight
) -> Iterator[Leg | NewRoute]:
    """Sum as ``sum_by_route``, and send each flight, and each new route, to the join."""
    if key not in state:
        yield NewRoute(key, flight.origin)
    sum_by_route(state, key, flight)
    yield Leg(key, flight.day, flight.carrier, flight.arrival_delay)


def score_rain(state: dict[str, Any], key: str, record: Weather | NewRoute) -> Iterator[RainScore]:
    """Score the days of a station for each of its routes, in either order of arrival."""
    station = state.setdefault(key, {"scores": {}, "routes": []})
    if isinstance(record, Weather):
        score = station["scores"][record.day] = rain_score(record.rain, HIGHEST_RAIN[key])
        for route in station["routes"]:
            yield RainScore(route, record.day, score)
    else:
        station["routes"].append(record.route)
        for day, score in station["scores"].items():
            yield RainScore(record.route, day, score)


def rain_score(rain: int, highest: int) -> int:
    """Return the rain in whole percent of the highest measured; whole numbers are exact."""
    return min(100, 100 * rain // highest)


def join_rain(state: dict[str, Any], key: str, record: Leg | RainScore) -> Iterator[ScoredFlight]:
    """Join a route's flights with its scores by day, in either order of arrival.

    The next pass of a replay sends the same scores again.
    """
    route = state.setdefault(key, {"scores": {}, "waiting": {}})
    if isinstance(record, RainScore):
        route["scores"][record.day] = record.score
        for carrier, delay in route["waiting"].pop(record.day, ()):
            yield ScoredFlight(carrier, record.score, delay)
        return
    score = route["scores"].get(record.day)
    if score is None:
        route["waiting"].setdefault(record.day, []).append([record.carrier, record.arrival_delay])
    else:
        yield ScoredFlight(record.carrier, score, record.arrival_delay)


def courier_efficiency(
    state: dict[str, Any], key: str, flight: ScoredFlight
) -> Iterator[CourierSums]:
    """Sum by courier and interval of ten scores: flights, flights that arrived, delays."""
    interval = interval_of(flight.score)
    sums = state.setdefault(key, {}).setdefault(interval, [0, 0, 0])
    add_delay(sums, flight.arrival_delay)
    yield CourierSums(key, interval, *sums)


def interval_of(score: int) -> str:
    """Return the lower end of a score's interval of ten; 100 is in the last one."""
    return str(min(score // 10, 9) * 10)


def store(state: dict[str, Any], key: str, sums: CourierSums) -> None:
    """Keep the newest row of each courier and interval, as results.py writes it to SQLite.

    The rows are totals, so storing a row again changes nothing.
    """
    state.setdefault(key, {})[sums.interval] = [sums.flights, sums.arrived, sums.delay]


def flying_airplane_of(record: Flight | Weather) -> str | None:
    """Return the airplane of a flight; None for weather."""
    return record.tailnum if isinstance(record, Flight) else None


def route_of(record: Flight | Weather) -> str | None:
    """Return origin and destination of a flight; None for weather."""
    return f"{record.origin}-{record.dest}" if isinstance(record, Flight) else None


def station_of(record: Any) -> str | None:
    """Return the station of weather, or of a route that begins there; None for flights."""
    return record.station if isinstance(record, Weather | NewRoute) else None


def route_to_join(record: Leg | RainScore | NewRoute) -> str | None:
    """Return the route of a flight or score, for the join; None for a new route."""
    return None if isinstance(record, NewRoute) else record.route


def carrier_of(record: ScoredFlight | CourierSums) -> str:
    """Return the courier of a flight or of sums."""
    return record.carrier


REAL_JOB_2 = StreamingJob(
    "real_job_2",
    source_key=SOURCE_KEY,
    operators=[
        Operator("extract_delays", process=extract_delays),
        Operator("sum_by_airplane", key=airplane_of, process=sum_by_airplane),
    ],
)

REAL_JOB_3 = StreamingJob(
    "real_job_3",
    source_key=SOURCE_KEY,
    operators=[
        Operator("extract_delays", process=extract_flights),
        Operator("sum_by_airplane", key=flying_airplane_of, process=sum_by_airplane),
        Operator("sum_by_route", key=route_of, process=sum_by_route),
    ],
)

REAL_JOB_4 = StreamingJob(
    "real_job_4",
    source_key=WEATHER_SOURCE_KEY,
    operators=[
        Operator("extract_delays", process=read_inputs),
        Operator("sum_by_airplane", key=flying_airplane_of, process=sum_by_airplane),
        Operator("sum_by_route", key=route_of, process=sum_and_send_by_route),
        Operator("rain_score", key=station_of, process=score_rain),
        Operator("join_rain", key=route_to_join, process=join_rain),
        Operator("courier_efficiency", key=carrier_of, process=courier_efficiency),
        Operator("store", key=carrier_of, process=store),
    ],
)

REAL_JOBS = {job.job: job for job in (REAL_JOB_2, REAL_JOB_3, REAL_JOB_4)}

PARTITION_KEYS = {
    "extract_delays": "tailnum",
    "sum_by_airplane": "tailnum",
    "sum_by_route": "route",
    "rain_score": "station",
    "join_rain": "route",
    "courier_efficiency": "carrier",
    "store": "carrier",
}
EDGES = (
    ("extract_delays", "sum_by_airplane"),
    ("extract_delays", "sum_by_route"),
    ("extract_delays", "rain_score"),
    ("sum_by_route", "rain_score"),
    ("sum_by_route", "join_rain"),
    ("rain_score", "join_rain"),
    ("join_rain", "courier_efficiency"),
    ("courier_efficiency", "store"),
)


def real_job_policy(
    job: StreamingJob, nodes: int = NODES, key_groups_per_node: int = KEY_GROUPS_PER_NODE
) -> JobPolicy:
    """Return a policy of equal nodes with this number of key groups per operator and node."""
    operators = [operator.id for operator in job.operators]
    return parse_policy(
        {
            "job": job.job,
            "window_s": 5,
            "statistics_period_s": 60,
            "operators": [
                {
                    "id": operator,
                    "key_groups": nodes * key_groups_per_node,
                    "partition_key": [PARTITION_KEYS[operator]],
                }
                for operator in operators
            ],
            "edges": [
                {"from": source, "to": target}
                for source, target in EDGES
                if source in operators and target in operators
            ],
            "nodes": [{"id": f"node-{number:02d}"} for number in range(nodes)],
            "objective": {"kind": "joint"},
            "budgets": {"moves": 10},
        },
        f"{job.job} (built in code)",
    )
