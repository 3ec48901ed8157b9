"""Seconds that a new `ballast solve` of 400 key groups takes beyond its --seconds: median of five.

    python -m bench.rebalance.fresh_process [--runs 5] [--seconds 1]

Exit 1 above three seconds. Only the caches on disk of an earlier run are warm. ``--cold`` prints
the first run separately, which may still have caches to write.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.common.runner import short_parser
from bench.rebalance.environments import ROOT

ALLOWED_S = 3.0
SIZE = ("--key-groups", "400", "--nodes", "20", "--moves", "20")


def seconds_beyond(folder: Path, index: int, seconds: float) -> float:
    """Wall time of one process from start to exit, minus its time limit."""
    ballast = Path(sys.executable).parent / "ballast"
    out = folder / f"out-{index}"
    limits = ["--method", "auto", "--seconds", f"{seconds:g}", "--seed", str(index)]
    command = [str(ballast), "solve", str(folder / "problem"), *limits, "--out", str(out)]
    began = time.monotonic()
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return time.monotonic() - began - seconds


def main(arguments: Sequence[str] | None = None) -> int:
    parser = short_parser(__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--cold", action="store_true")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="ballast-fresh-") as work:
        folder = Path(work)
        make = [sys.executable, "bench/make_problem.py", *SIZE, "--seed", "1"]
        subprocess.run(
            [*make, "--out", str(folder / "problem")], cwd=ROOT, check=True, capture_output=True
        )
        if args.cold:
            print(f"first: {seconds_beyond(folder, args.runs, args.seconds):.2f} s beyond")
        beyond = [seconds_beyond(folder, index, args.seconds) for index in range(args.runs)]
    median = statistics.median(beyond)
    is_met = median <= ALLOWED_S
    print(
        f"beyond --seconds {args.seconds:g}: {', '.join(f'{b:.2f}' for b in beyond)} s; median "
        f"{median:.2f} s, allowed {ALLOWED_S:g} s: {'met' if is_met else 'NOT MET'}"
    )
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
