"""``python -m examples.flights.check``: compares the job's sums with its input.

pandas computes the sums from the input files, without code of the job. The job must have stopped:
it processes all its input before it stops.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ballast.contracts.errors import BallastError
from ballast.contracts.settings import Settings, load_settings
from ballast.streaming.job_lock import JobLock
from ballast.streaming.job_state import job_folder, read_states
from examples.flights.feed import FlightsFolder, chunk_files

COLUMNS = {0: "year", 8: "arr_delay", 11: "tailnum", 13: "dest"}
Sums = dict[Any, tuple[Any, ...]]


@dataclass(frozen=True)
class SumsReport:
    """How many sums were compared, and which differ."""

    flights: int
    airplane_years: int
    destinations: int
    differences: tuple[str, ...]

    @property
    def equal(self) -> bool:
        """Whether every sum is equal to that of the input."""
        return not self.differences

    def text(self) -> str:
        """One line, then the first differences."""
        verdict = "equal" if self.equal else f"{len(self.differences)} DIFFER"
        head = (
            f"sums of {self.flights} flights: {self.airplane_years} airplanes and years, "
            f"{self.destinations} destinations: {verdict}"
        )
        return "\n".join([head, *self.differences[:10]])


def check_sums(settings: Settings, folder: FlightsFolder | None = None) -> SumsReport:
    """Compares the job's sums with those of its input."""
    root = job_folder(settings, "flights")
    with JobLock(root / "job.lock", "flights"):
        folder = folder or FlightsFolder(root)
        by_airplane, by_destination = _input_sums(folder)
        counted_airplanes, counted_destinations = _job_sums(settings)
    found = [
        *differences("airplane", by_airplane, counted_airplanes),
        *differences("destination", by_destination, counted_destinations),
    ]
    flights = sum(sums[0] for sums in by_destination.values())
    return SumsReport(flights, len(by_airplane), len(by_destination), tuple(found))


def _job_sums(settings: Settings) -> tuple[Sums, Sums]:
    airplanes = {
        (tailnum, year): tuple(sums)
        for state in read_states(settings, "flights", "sum_by_airplane").values()
        for tailnum, years in state.items()
        for year, sums in years.items()
    }
    destinations = {
        dest: tuple(sums)
        for state in read_states(settings, "flights", "sum_by_destination").values()
        for dest, sums in state.items()
    }
    return airplanes, destinations


def input_files(folder: FlightsFolder) -> list[tuple[Path, int]]:
    """Every file that was fed, and how many times."""
    removed = folder.passes_removed()
    chunks = chunk_files(folder.chunks)
    present = [
        path for number, path in sorted(folder.files().items()) if number >= removed * len(chunks)
    ]
    # Whole passes that were removed after counting were copies of all chunks.
    return [(path, 1) for path in present] + [(path, removed) for path in chunks if removed]


def _input_sums(folder: FlightsFolder) -> tuple[Sums, Sums]:
    weighted = input_files(folder)
    if not weighted:
        return {}, {}
    flights = pd.concat([_read(path).assign(weight=weight) for path, weight in weighted])
    flights["arrived"] = flights["arr_delay"].notna().astype(int) * flights["weight"]
    flights["delay"] = flights["arr_delay"].fillna(0) * flights["weight"]
    airplanes = flights.groupby(["tailnum", "year"])[["weight", "arrived", "delay"]].sum()
    destinations = flights.groupby("dest")[["weight", "arrived", "delay"]].sum()
    longest = flights.groupby("dest")["arr_delay"].max()
    return (
        {
            name: _whole(row)
            for name, row in zip(airplanes.index, airplanes.to_numpy(), strict=True)
        },
        {
            name: (*_whole(row), None if pd.isna(longest[name]) else int(longest[name]))
            for name, row in zip(destinations.index, destinations.to_numpy(), strict=True)
        },
    )


def _read(path: Path) -> pd.DataFrame:
    missing: Any = {8: [""], 11: [""]}  # by position, which the stubs of pandas do not know
    frame = pd.read_csv(
        path, header=None, usecols=list(COLUMNS), dtype={0: str, 11: str, 13: str},
        keep_default_na=False, na_values=missing,
    )  # fmt: skip
    return frame.rename(columns=COLUMNS)


def _whole(row: Any) -> tuple[int, ...]:
    return tuple(int(value) for value in row)


def differences(kind: str, wanted: Mapping[Any, Any], found: Mapping[Any, Any]) -> list[str]:
    """One line for every name whose sums differ."""
    return [
        f"{kind} {name}: input {wanted.get(name)}, job {found.get(name)}"
        for name in sorted(wanted.keys() | found.keys())
        if wanted.get(name) != found.get(name)
    ]


def main(arguments: list[str] | None = None) -> int:
    """Exit 0 only if every sum is equal."""
    argparse.ArgumentParser(
        prog="python -m examples.flights.check", description=__doc__
    ).parse_args(arguments)
    try:
        report = check_sums(load_settings())
    except BallastError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print(report.text())
    return 0 if report.equal else 1


if __name__ == "__main__":
    sys.exit(main())
