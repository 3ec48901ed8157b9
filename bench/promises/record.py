"""Records windows of the running flights job, for the rounds of this benchmark.

    python -m bench.promises.record --minutes 30 bench/promises/data/quiet.npz
    python -m bench.promises.record --minutes 30 --spin 2 bench/promises/data/loaded.npz
    python -m bench.promises.record --from WAREHOUSE bench/promises/data/quiet.npz

``--spin`` runs that many processes beside it that keep processors busy. ``--from`` exports windows
that a job has written already. The machine should do nothing else.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ballast.contracts.settings import load_settings
from bench.common.seeds import ROOT
from bench.promises.recorded_windows import SKIPPED, windows_of_warehouse
from embedded.busy_processes import spinning_processes

JOB = "flights"
WINDOW_S = 10
START_S = 60
"""Spark starts, and the windows that are skipped pass."""


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.promises.record",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("out", type=Path, help="file to write, .npz")
    parser.add_argument("--minutes", type=float, default=30, help="(%(default)g)")
    parser.add_argument("--spin", type=int, default=0, help="busy processes beside it")
    parser.add_argument("--from", dest="warehouse", type=Path, help="export this warehouse")
    return parser.parse_args(arguments)


def run_job(home: Path, minutes: float, spin: int) -> None:
    """Run the flights job on one core, so that key groups do not compete for processors."""
    environment = {
        **os.environ,
        "BALLAST_HOME": str(home),
        "BALLAST_WAREHOUSE": str(home / "warehouse"),
        "BALLAST_JARS": str(ROOT / ".ballast" / "jars"),
        "BALLAST_SPARK_MASTER": "local[1]",
    }
    seconds = 60 * minutes + START_S + SKIPPED * WINDOW_S
    command = [sys.executable, "-m", "examples.flights", "--duration", str(seconds)]
    with spinning_processes(spin):
        subprocess.run(command, cwd=ROOT, env=environment, check=True)


def export(warehouse: Path, out: Path, minutes: float) -> None:
    """Write the windows of a warehouse to a file."""
    settings = replace(load_settings(), warehouse=str(warehouse))
    found = windows_of_warehouse(settings, JOB, windows=round(60 * minutes / WINDOW_S))
    found.save(out)
    print(f"{out}: {found.windows} windows of {len(found.node_of)} key groups")


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    if options.warehouse is not None:
        export(options.warehouse, options.out, options.minutes)
        return 0
    with tempfile.TemporaryDirectory(prefix="ballast-record-") as home:
        run_job(Path(home), options.minutes, options.spin)
        export(Path(home) / "warehouse", options.out, options.minutes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
