"""Runs Real Jobs 2, 3 and 4 of [ICDE17, 5.4], round by round, on the streaming library.

    python -m bench.real_jobs                      all three (make bench-real-jobs)
    python -m bench.real_jobs --jobs 2 --rounds 5  a part of it
    python -m bench.real_jobs --docs               also writes docs/bench-real-jobs.md
    python -m bench.real_jobs --docs --reuse       writes it again from the last results

Exit 0: the sums of every job are equal to those of the input; 1: the sums of a job differ.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ballast.contracts.settings import load_settings
from ballast.streaming import StreamingJob
from bench.common.runner import Benchmark, Revision, Stopwatch, machine
from bench.common.seeds import ROOT
from bench.real_jobs import plots, report
from bench.real_jobs.methods import METHODS, Rules
from bench.real_jobs.notes import NOTES
from bench.real_jobs.rounds import JobRun, JobSetting, run_job
from bench.serialise import flow_of_job, measure
from examples.flights.__main__ import build_session
from examples.flights.real_jobs import REAL_JOB_4, REAL_JOBS, real_job_policy
from examples.flights.weather import flight_lines, merged_lines
from solvers.model.traffic_costs import TrafficCosts

BENCHMARK = Benchmark("real_jobs", "Real Jobs 2, 3 and 4 on the streaming library", __doc__)
OUT = BENCHMARK.results
ROUNDS = {"2": 12, "3": 12, "4": 20}
"""Plans of each job: at ten moves each, enough to collocate every pair that can be collocated."""
ONE_TO_ONE = ("extract_delays", "sum_by_airplane")
COST_REPEAT = 9


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = BENCHMARK.parser()
    add = parser.add_argument
    add("--jobs", default="2,3,4", help="some of them (%(default)s)")
    add("--rounds", type=int, help="plans a job (12, 12 and 20)")
    add("--nodes", type=int, default=20)
    add("--moves", type=int, default=10, help="key groups that a plan may move (%(default)s)")
    add("--bound", type=float, default=10.0, help="load distance, %% of the mean (%(default)s)")
    add("--batches", type=int, default=1, help="batches a round (%(default)s)")
    add("--batch-records", type=int, default=96_000, help="lines a batch (%(default)s)")
    add("--methods", default=",".join(METHODS))
    add("--cola-rounds", type=int, default=2, help="rounds of COLA (%(default)s)")
    add("--seed-base", type=int, default=1)
    add("--reuse", action="store_true", help="run nothing: take the results of the last run")
    BENCHMARK.add_docs(parser)
    options = parser.parse_args(arguments)
    for given, known in ((options.jobs, ROUNDS), (options.methods, METHODS)):
        unknown = [name for name in given.split(",") if name not in known]
        if unknown:
            parser.error(f"{', '.join(unknown)}: not among {', '.join(known)}")
    return options


def sending_costs(job: StreamingJob, lines: Sequence[str], nodes: int, size: int) -> TrafficCosts:
    """CPU ms per record sent and per record received, on the edge that can be collocated as a
    whole."""
    half = len(lines) // 2
    flow = flow_of_job(job, real_job_policy(job, nodes), lines[half : half + size])
    cost = measure(flow.blocks[ONE_TO_ONE], COST_REPEAT)
    return TrafficCosts(send=(cost.send.median / 1000,), receive=(cost.receive.median / 1000,))


def run_all(options: argparse.Namespace) -> None:
    setting = JobSetting(
        nodes=options.nodes,
        cola_rounds=options.cola_rounds,
        batches_per_round=options.batches,
        batch_records=options.batch_records,
        seed=options.seed_base,
        methods=tuple(options.methods.split(",")),
    )
    with tempfile.TemporaryDirectory(prefix="ballast-real-jobs-") as work:
        settings = load_settings({**os.environ, "BALLAST_HOME": f"{work}/home"})
        jars = ROOT / ".ballast" / "jars"
        spark = build_session(replace(settings, jars=jars))
        for number in options.jobs.split(","):
            job = REAL_JOBS[f"real_job_{number}"]
            lines = merged_lines() if job is REAL_JOB_4 else flight_lines()
            costs = sending_costs(job, lines, options.nodes, options.batch_records)
            rules = Rules(options.moves, options.bound, costs)
            rounds = options.rounds or ROUNDS[number]
            watch = Stopwatch()
            run = run_job(
                spark, job, lines, replace(setting, rounds=rounds), rules,
                Path(work) / job.job, _print_progress,
            )  # fmt: skip
            save(run, words_of(options, rounds, watch.minutes))
        spark.stop()


def _print_progress(text: str) -> None:
    print(text, flush=True)


def words_of(options: argparse.Namespace, rounds: int, minutes: float) -> str:
    return (
        f"{rounds} plans, {options.batches} batches of {options.batch_records} lines a round, "
        f"{options.nodes} logical nodes, 5 key groups per operator and node, at most "
        f"{options.moves} moves a plan, load distance at most {options.bound:g} % of the mean, "
        f"seed {options.seed_base}; COLA has no budget of moves and {options.cola_rounds} plans. "
        f"Commit {Revision.of(None).short_commit}, {machine()}, {minutes:.0f} minutes."
    )


def save(run: JobRun, words: str) -> None:
    """Write one file for each job, so that jobs can be run one at a time."""
    OUT.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"words": words, "run": run.to_json()})
    (OUT / f"{run.job}.json").write_text(text)


def saved(jobs: Sequence[str]) -> list[tuple[JobRun, str]]:
    """The last saved run of each job, and the text on how it was made."""
    found = [json.loads((OUT / f"real_job_{number}.json").read_text()) for number in jobs]
    return [(JobRun.from_json(one["run"]), one["words"]) for one in found]


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    if not options.reuse:
        run_all(options)
    found = saved(options.jobs.split(","))
    runs = [run for run, _ in found]
    words = "\n".join(f"- {report.title(run)}: {text}" for run, text in found)
    if options.docs:
        BENCHMARK.write_page(report.document(runs, words, NOTES))
        plots.draw(runs, BENCHMARK.picture)
    print(f"\n{words}\n\n{report.beside_print(runs)}\n\n{report.summary(runs)}")
    print(f"\n{report.serialisation_table(runs)}\n\nresults: {OUT}")
    is_exact = all(run.is_exact for run in runs)
    print("every stored sum is the input's" if is_exact else "STORED SUMS DIFFER FROM THE INPUT'S")
    return 0 if is_exact else 1


if __name__ == "__main__":
    sys.exit(main())
