"""Whether promised intervals hold, and how few plans and moves noise causes.

    python -m bench.promises                      everything (make bench-promises)
    python -m bench.promises --docs               and write docs/bench-promises.md
    python -m bench.promises --only coverage --sources quiet,zipf --jobs 4 --seed-base 1f

Rounds call the functions that condense, solve and measure call, without Spark. Windows are those of
two recordings of the flights job (bench/promises/data, made by bench.promises.record) and of
four made-up loads (load_process.py). Nothing is timed: the same seeds print the same figures
anywhere.
Exit 0: every verdict holds; 1: one does not.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass

from ballast.contracts.tables import EXACT, MEASURED
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
from bench.common.verdict import Verdict
from bench.promises import report, verdicts
from bench.promises.experiments import (
    EXPERIMENTS,
    ROUNDS,
    CoverageFigures,
    ExperimentTask,
    JobRounds,
    PlanCosts,
    coverage_figures,
    plan_costs,
)
from bench.promises.load_process import SHAPES
from bench.promises.load_sources import SOURCES

BENCHMARK = Benchmark("promises", "Promises and their intervals", __doc__)
PROCESSES = 2
JOBS = {"coverage": 20, "level": 8, "shift": 200, "saving": 3}
"""Jobs of each source."""
JOBS_OF_THRESHOLDS = {"level": 2, "saving": 3}
SHIFTED = "quiet"


@dataclass(frozen=True)
class PromiseResults:
    """What was measured, by source and rule."""

    coverage: dict[str, CoverageFigures]
    level: dict[str, dict[str, PlanCosts]]
    answered_pct: float | None
    saving: dict[str, dict[str, PlanCosts]]

    def verdicts(self) -> list[Verdict]:
        shifts = [] if self.answered_pct is None else verdicts.of_shift(self.answered_pct)
        return [
            *verdicts.of_coverage(self.coverage),
            *verdicts.of_level(self.level),
            *shifts,
            *verdicts.of_saving(self.saving),
        ]


def tasks_of(options: argparse.Namespace, seed_base: int) -> list[ExperimentTask]:
    """All jobs of all experiments, the longest first."""
    found = []
    for experiment in options.only:
        for source in options.sources:
            if experiment == "shift" and source != SHIFTED:
                continue
            if experiment == "level" and not is_stationary(source):
                continue
            for rule, jobs in ((MEASURED, JOBS), (EXACT, JOBS_OF_THRESHOLDS)):
                count = min(jobs.get(experiment, 0), options.jobs or sys.maxsize)
                found += [
                    ExperimentTask(experiment, source, rule, index, seed_base)
                    for index in range(count)
                ]
    return found


def is_stationary(source: str) -> bool:
    """Whether mean loads stay as they are."""
    return source not in SHAPES or SHAPES[source].is_stationary


def run_task(task: ExperimentTask) -> JobRounds:
    return EXPERIMENTS[task.experiment](task)


def measure(tasks: Sequence[ExperimentTask], processes: int) -> PromiseResults:
    """Run all tasks and add up their figures."""
    runs: dict[tuple[str, str, str], list[JobRounds]] = defaultdict(list)
    left = Counter(task.part for task in tasks)
    with ProcessPoolExecutor(processes) as pool:
        pending = [pool.submit(run_task, task) for task in tasks]
        for number, done in enumerate(as_completed(pending), 1):
            run = done.result()
            part = run.task.part
            runs[part].append(run)
            left[part] -= 1
            if not left[part]:
                print(
                    f"[{number}/{len(tasks)}] {' '.join(part)}: {in_brief(runs[part])}", flush=True
                )
    shifts = [run.is_answered for run in runs.get(("shift", SHIFTED, MEASURED), ())]
    return PromiseResults(
        coverage={
            source: coverage_figures(runs["coverage", source, MEASURED])
            for source in SOURCES
            if ("coverage", source, MEASURED) in runs
        },
        level=_by_rule(runs, "level"),
        answered_pct=100.0 * sum(shifts) / len(shifts) if shifts else None,
        saving=_by_rule(runs, "saving"),
    )


def in_brief(runs: Sequence[JobRounds]) -> str:
    """The figures of the jobs of one experiment, source and rule, while others still run."""
    if runs[0].task.experiment == "coverage":
        found = coverage_figures(runs)
        return (
            f"{found.inside_pct:.1f} % inside, {found.plans_inside_pct:.1f} % with a plan, width "
            f"{found.width_ratio:.2f} of the oracle's"
        )
    costs, answered = plan_costs(runs), sum(run.is_answered for run in runs)
    return (
        f"{costs.plans} plans and {costs.moves} moves in {costs.rounds} rounds, "
        f"{answered} of {len(runs)} shifts answered, load distance {costs.measured:.2f} %"
    )


def _by_rule(
    runs: dict[tuple[str, str, str], list[JobRounds]], experiment: str
) -> dict[str, dict[str, PlanCosts]]:
    return {
        source: {rule: plan_costs(runs[experiment, source, rule]) for rule in (MEASURED, EXACT)}
        for source in SOURCES
        if (experiment, source, MEASURED) in runs
    }


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = BENCHMARK.parser()
    add = parser.add_argument
    add("--only", type=_names_of(EXPERIMENTS), default=list(EXPERIMENTS), help="some experiments")
    add("--sources", type=_names_of(SOURCES), default=list(SOURCES), help="some of the loads")
    add("--jobs", type=int, help="at most so many jobs of each experiment and load")
    add("--processes", type=int, default=PROCESSES)
    add_seed_base(parser)
    add_out(parser, "results.json and table.md")
    BENCHMARK.add_docs(parser, "no picture")
    return parser.parse_args(arguments)


def _names_of(known: Collection[str]) -> Callable[[str], list[str]]:
    def names(text: str) -> list[str]:
        unknown = [name for name in text.split(",") if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"{unknown[0]} is not among {', '.join(known)}")
        return text.split(",")

    return names


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    revision, watch = Revision.of(options.seed_base), Stopwatch()
    found = measure(tasks_of(options, revision.seed_base), options.processes)
    judged = found.verdicts()
    text = report.page(
        _words(revision, watch.minutes), found.coverage, found.level, found.saving, judged
    )
    folder = options.out or BENCHMARK.results / revision.seed_name
    write_results(
        folder,
        {"commit": revision.commit, **asdict(found), "verdicts": verdict_rows(judged)},
        text,
    )
    if options.docs:
        BENCHMARK.write_page(text)
    return conclude(text, holds=all(v.holds for v in judged), folder=folder)


def _words(revision: Revision, minutes: float) -> str:
    return (
        "Made by `make bench-promises` (`python -m bench.promises --docs`) at commit "
        f"{revision.short_commit}, seed base {revision.seed_name}, {ROUNDS} rounds a job, "
        f"{machine()}, {minutes:.0f} minutes. Recordings: the flights job over 30 minutes, alone "
        "on a machine (*quiet*) and on a busy one (*loaded*; bench/promises/data/README.md says "
        "beside what). The method is in [promises.md](promises.md)."
    )


if __name__ == "__main__":
    sys.exit(main())
