"""Scaling and placing, compared with what [ICDE17], [AUTODASP17] and [DODO] print.

    python -m bench.scaling                    everything (make bench-scaling)
    python -m bench.scaling --docs             and write docs/bench-scaling.md with its picture
    python -m bench.scaling --only substreams --seeds 1 --seed-base 1f

Nothing is timed but the command itself: the same seeds print the same figures anywhere. Exit 0:
every verdict holds; 1: one does not.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

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
from bench.scaling import dodo, draining, placing, plots, report, streams, verdicts
from bench.scaling.dodo import Trial
from bench.scaling.draining import Drain
from bench.scaling.streams import StreamOutcome
from bench.simulator.substreams import LAWS

BENCHMARK = Benchmark("scaling", "Scaling and placing", __doc__)
SEEDS = 4
PROCESSES = 2
PARTS = ("scale-in", "dodo", "substreams")

Task = tuple[Callable[..., Any], tuple[Any, ...]]


@dataclass(frozen=True)
class ScalingResults:
    """The measurements, in the order of the tables."""

    drains: tuple[Drain, ...]
    trials: tuple[Trial, ...]
    outcomes: tuple[StreamOutcome, ...]

    def verdicts(self) -> list[verdicts.Verdict]:
        return [
            *verdicts.of_drains(self.drains),
            *verdicts.of_trials(self.trials),
            *verdicts.of_outcomes(self.outcomes),
        ]


def tasks_of(parts: Sequence[str], seeds: int, base: int) -> dict[str, list[Task]]:
    found: dict[str, list[Task]] = {part: [] for part in PARTS}
    if "scale-in" in parts:
        found["scale-in"] = [
            (draining.drain_of, (base, overloaded, index))
            for overloaded in draining.OVERLOADED
            for index in range(seeds)
        ]
    if "dodo" in parts:
        cases = (dodo.EXTREME, dodo.OPTIMAL, dodo.FIXED)
        found["dodo"] = [(dodo.trial_of, (base, c, ratio)) for c in cases for ratio in dodo.RATIOS]
    if "substreams" in parts:
        found["substreams"] = _substreams(seeds, base)
    return found


def _substreams(seeds: int, base: int) -> list[Task]:
    """Run every seed at the usual number of instances, and the first seed at the others as well."""
    return [
        (streams.outcome_of, (base, law, method, index, n))
        for law in LAWS
        for method in placing.METHODS
        for n in streams.SPEED_UPS
        for index in range(seeds if n == streams.INSTANCES else 1)
    ]


def measure(tasks: dict[str, list[Task]], processes: int) -> ScalingResults:
    with ProcessPoolExecutor(processes) as pool:
        # The longest first, so that no single core runs them at the end.
        runs = {
            part: [pool.submit(_timed, function, *given) for function, given in tasks[part]]
            for part in reversed(PARTS)
        }
        drains, trials, outcomes = (tuple(run.result() for run in runs[part]) for part in PARTS)
    return ScalingResults(drains, trials, outcomes)


def _timed(function: Callable[..., Any], *given: Any) -> Any:
    started = time.monotonic()
    result = function(*given)
    what = ", ".join(map(str, given[1:]))
    print(f"{function.__name__} {what}: {time.monotonic() - started:.0f} s", flush=True)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(arguments)
    revision = Revision.of(args.seed_base)
    watch = Stopwatch()
    found = measure(tasks_of(args.only, args.seeds, revision.seed_base), args.processes)
    judged = found.verdicts()
    words = _words(revision, args.seeds, watch.minutes)
    text = report.page(words, found.drains, found.trials, found.outcomes, judged)
    out = args.out or BENCHMARK.results / revision.seed_name
    content = {
        "commit": revision.commit,
        "scale_in": [asdict(d) for d in found.drains],
        "dodo": [asdict(t) for t in found.trials],
        "substreams": [o.to_dict() for o in found.outcomes],
        "verdicts": verdict_rows(judged),
    }
    write_results(out, content, text)
    plots.draw(found.drains, found.trials, found.outcomes, out / "plot.svg")
    if args.docs:
        _write_docs(found, text)
    return conclude(text, holds=all(v.holds for v in judged), folder=out)


def _words(revision: Revision, seeds: int, minutes: float) -> str:
    return (
        "Made by `make bench-scaling` (`python -m bench.scaling --docs`) at commit "
        f"{revision.short_commit}, seed base {revision.seed_name}, {seeds} seeds, {machine()}, "
        f"{minutes:.0f} minutes. Everything runs in the simulator "
        "(`bench/simulator`), is seeded and stops after steps, so the same seeds give the same "
        "figures on any machine. Our plans for [ICDE17] and [DODO] went through `solvers.verify` "
        "before they came into force. What of a paper's setting is not in print is named in the "
        "code beside the value chosen."
    )


def _parser() -> argparse.ArgumentParser:
    parser = BENCHMARK.parser()
    add = parser.add_argument
    add_seed_base(parser)
    add("--seeds", type=int, default=SEEDS, help="instances of each setting")
    add("--only", nargs="+", choices=PARTS, default=list(PARTS), help="some of the parts")
    add("--processes", type=int, default=PROCESSES)
    add_out(parser, "results.json, table.md and plot.svg")
    BENCHMARK.add_docs(parser)
    return parser


def _write_docs(found: ScalingResults, text: str) -> None:
    plots.draw(found.drains, found.trials, found.outcomes, BENCHMARK.picture)
    caption = "Load distance by round, throughput under the ramps, imbalance against state moved"
    BENCHMARK.write_page(f"{text}\n{BENCHMARK.picture_link(caption)}\n")


if __name__ == "__main__":
    sys.exit(main())
