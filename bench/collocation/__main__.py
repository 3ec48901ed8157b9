"""Rounds until 90 % of the obtainable collocation: ours, ALBIC, ALBIC with M pairs, COLA.

    python -m bench.collocation                    every setting
    python -m bench.collocation --nodes 20 --shapes chains --seeds 5 --seed-base 1f
    python -m bench.collocation --docs             make bench-collocation: writes its page in docs/

Obtainable is the most that any method had in any round within the load bound, which is 10 % of the
mean for all of them. The lower bound on rounds is proven and ignores load. Nothing is timed: the
same seeds print the same figures anywhere.
Exit 0: every verdict holds; 1: one does not.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from bench.collocation import paper, plots, table
from bench.collocation.methods import ALBIC, METHODS, OURS, WORDS, CollocationSetting, step_of
from bench.collocation.rounds import CollocationRound, CollocationRun, History, run_of, simulate
from bench.collocation.settings import ROUNDS, SHAPES, SIZES, settings_of
from bench.collocation.verdicts import WorstCaseVerdict, verdicts
from bench.common.runner import (
    Benchmark,
    Revision,
    Stopwatch,
    add_out,
    add_seed_base,
    conclude,
    machine,
    write_results,
)
from bench.common.seeds import seed_of

BENCHMARK = Benchmark("collocation", "Collocation round by round", __doc__)
SEEDS = 2
WORKERS = 2


@dataclass(frozen=True, slots=True)
class CollocationTask:
    """One method on one instance."""

    setting: CollocationSetting
    index: int
    seed: int
    method: str


def tasks_of(
    settings: Sequence[CollocationSetting], seeds: int, seed_base: int
) -> list[CollocationTask]:
    """Longest first, so that no core is left with a long one at the end."""
    found = [
        CollocationTask(setting, index, seed_of(seed_base, setting.name, index), method)
        for setting in settings
        for index in range(seeds)
        for method in METHODS
    ]
    slow = {OURS: 2, ALBIC: 1}
    return sorted(
        found, key=lambda t: (-slow.get(t.method, 0), -t.setting.scenario.nodes, t.setting.name)
    )


def run_task(task: CollocationTask) -> tuple[CollocationTask, list[CollocationRound], float]:
    started = time.monotonic()
    step = step_of(task.method, task.setting)
    history = simulate(
        step, task.setting, task.seed, ROUNDS[task.method], with_bounds=task.method == OURS
    )
    return task, history, time.monotonic() - started


def run_all(
    tasks: Sequence[CollocationTask], workers: int
) -> Iterator[tuple[CollocationTask, list[CollocationRound], float]]:
    if workers < 2:
        yield from map(run_task, tasks)
        return
    with ProcessPoolExecutor(workers) as pool:
        for done in as_completed([pool.submit(run_task, task) for task in tasks]):
            yield done.result()


def measure(tasks: Sequence[CollocationTask], workers: int) -> list[CollocationRun]:
    """Run all tasks; return the runs in the order of settings and seeds."""
    histories: dict[tuple[str, int], dict[str, History]] = {}
    runs: dict[tuple[str, int], CollocationRun] = {}
    for number, (task, history, seconds) in enumerate(run_all(tasks, workers), 1):
        key = task.setting.name, task.index
        found = histories.setdefault(key, {})
        found[task.method] = history
        print(
            f"[{number}/{len(tasks)}] {task.setting.name}, seed {task.index + 1}, "
            f"{WORDS[task.method]}: {max(r.collocation for r in history):.1f} % in "
            f"{len(history)} rounds, {seconds:.0f} s",
            flush=True,
        )
        if len(found) == len(METHODS):
            runs[key] = run_of(task.setting, task.seed, task.index, found)
            print(f"    {table.progress_line(runs[key])}", flush=True)
    order = dict.fromkeys(
        (task.setting.name, task.index) for task in sorted(tasks, key=_place_in_table)
    )
    return [runs[key] for key in order]


def _place_in_table(task: CollocationTask) -> tuple[int, int, int]:
    shape = task.setting.name.split(", ")[1]
    return list(SHAPES).index(shape), task.setting.scenario.nodes, task.index


def report(runs: Sequence[CollocationRun], found: Sequence[WorstCaseVerdict], words: str) -> str:
    """The page in Markdown, without its picture."""
    parts = [
        words,
        "## Rounds to 90 % of the obtainable collocation",
        "One figure a seed; in brackets the best that was had within the load bound.",
        table.rounds_table(runs),
        "## Load distance at the end, and how far from the best possible",
        END_OF_ROUNDS,
        table.end_table(runs),
        "## Verdicts",
        table.verdict_table(found),
    ]
    printed = paper.section(runs)
    if printed:
        parts += ["## Compared with what [ICDE17, 5.3] prints", PRINTED, printed]
    parts += ["## Round by round", "Collocation in % / load distance in % / moves; first seed."]
    for run in runs:
        if run.index == 0 and run.setting.name.split(", ")[1] in plots.DRAWN:
            parts += [f"### {run.setting.name}", table.progress_table(run)]
    return "\n\n".join(parts) + "\n"


END_OF_ROUNDS = (
    "Means of the last 10 rounds, one figure a seed, in %. The bounds are proven for every plan of "
    "the round within its budget, each for its figure alone. Not levelled: the moves left in the "
    "budget are not used for the load."
)
PRINTED = (
    "The text prints one number, 'up to ten percent', and otherwise says which is better; the "
    "figures are curves, and nothing is read off them. Topology, rounds and COLA's load bound are "
    "not printed: here operators are in pairs, ALBIC runs until it gets no further or to its cap, "
    "and the bound is that of all methods. What the paper calls the maximum collocation is here "
    "the share of the key groups that send one to one; the others send to all key groups of the "
    "operator that they are paired with, which fill four nodes, so that more than that share can "
    "be had."
)


def _words(command: str, revision: Revision, seeds: int, minutes: float) -> str:
    caps = ", ".join(f"{WORDS[method]} {rounds}" for method, rounds in ROUNDS.items())
    return (
        f"Made by `{command}` at commit {revision.short_commit}, seed base {revision.seed_name}, "
        f"{seeds} seeds, {machine()}, {minutes:.0f} minutes. "
        "Setting of [ICDE17, 5.3]: 20 key groups a node, 20/40/60 nodes with 10/20/30 operators, "
        "20 % of the nodes +-2 % a round; 10, 20 and 20 moves a round (M); load distance at most "
        f"10 % of the mean. Rounds at most: {caps}. COLA has no budget."
    )


def _parser() -> argparse.ArgumentParser:
    parser = BENCHMARK.parser()
    add = parser.add_argument
    add_seed_base(parser)
    add("--seeds", type=int, default=SEEDS, help="instances a setting")
    add("--nodes", type=int, nargs="+", choices=SIZES, help="some of the sizes")
    add("--shapes", nargs="+", choices=list(SHAPES), help="some shapes, at every size named")
    add("--workers", type=int, default=WORKERS, help="processes")
    add_out(parser, "results.json, rounds.csv, table.md and plot.svg")
    BENCHMARK.add_docs(parser)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    args = _parser().parse_args(arguments)
    revision = Revision.of(args.seed_base)
    out = args.out or BENCHMARK.results / revision.seed_name
    watch = Stopwatch()
    tasks = tasks_of(settings_of(args.nodes, args.shapes), args.seeds, revision.seed_base)
    runs = measure(tasks, args.workers)
    found = verdicts(runs)
    named = " ".join(["python -m bench.collocation", *arguments])
    command = "make bench-collocation" if not arguments else named
    text = report(runs, found, _words(command, revision, args.seeds, watch.minutes))
    _write(out, revision, runs, text)
    if args.docs:
        _write_docs(runs, text)
    return conclude(text, holds=all(v.holds for v in found), folder=out)


def _write(out: Path, revision: Revision, runs: Sequence[CollocationRun], text: str) -> None:
    content = {
        "commit": revision.commit,
        "seed_base": revision.seed_name,
        "runs": [run.to_dict() for run in runs],
    }
    write_results(out, content, text)
    with (out / "rounds.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(
            ["setting", "seed", "method", "round", *(f.name for f in fields(CollocationRound))]
        )
        for run in runs:
            for method, history in run.histories.items():
                for number, found in enumerate(history, 1):
                    rows.writerow([run.setting.name, run.seed, method, number, *astuple(found)])
    plots.draw(runs, out / "plot.svg")


def _write_docs(runs: Sequence[CollocationRun], text: str) -> None:
    if plots.draw(runs, BENCHMARK.picture):
        picture = BENCHMARK.picture_link("Collocation, load distance and moves by round")
        text += (
            f"\n{picture}\n\n"
            "First seed of each. Dotted: what is wanted, and the load bound; dashed: the proven "
            "lower bound on rounds.\n"
        )
    BENCHMARK.write_page(text)


if __name__ == "__main__":
    sys.exit(main())
