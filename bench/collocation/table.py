"""The tables: rounds needed by setting and method, and figures round by round."""

from __future__ import annotations

from collections.abc import Sequence

from bench.collocation.methods import METHODS, OURS, UNLEVELLED, WORDS
from bench.collocation.rounds import CollocationRun, History, at_the_end, best_within
from bench.collocation.verdicts import WorstCaseVerdict
from bench.common.markdown import line

SHOWN_ROUNDS = (1, 5, 10, 15, 20, 25, 30, 40, 60, 100, 200, 400)
"""Rounds that the table by round shows; the files have all of them."""


def rounds_table(runs: Sequence[CollocationRun]) -> str:
    """A row for each setting; with several seeds, one figure for each seed in their order."""
    heads = ["setting", "wanted, %", "lower bound", *(WORDS[m] for m in METHODS)]
    lines = [line(heads), line(["---"] * len(heads))]
    for name in dict.fromkeys(run.setting.name for run in runs):
        mine = [run for run in runs if run.setting.name == name]
        cells = [
            name,
            " / ".join(f"{run.wanted:.1f}" for run in mine),
            " / ".join(str(run.fewest) for run in mine),
            *(" / ".join(reached(run, method) for run in mine) for method in METHODS),
        ]
        lines.append(line(cells))
    return "\n".join(lines)


def end_table(runs: Sequence[CollocationRun]) -> str:
    """Collocation and load distance of the last rounds with their bounds; a row a setting."""
    heads = [
        "setting", "collocation", "its bound", "not levelled", "load distance", "its bound",
        "not levelled",
    ]  # fmt: skip
    lines = [line(heads), line(["---"] * len(heads))]
    for name in dict.fromkeys(run.setting.name for run in runs):
        mine = [run for run in runs if run.setting.name == name]
        ours = [at_the_end(run.histories[OURS]) for run in mine]
        without = [at_the_end(run.histories[UNLEVELLED]) for run in mine]
        columns = (
            [r.collocation for r in ours],
            [r.collocation_bound for r in ours],
            [r.collocation for r in without],
            [r.load_distance for r in ours],
            [r.load_bound for r in ours],
            [r.load_distance for r in without],
        )
        lines.append(line([name, *(" / ".join(f"{x:.1f}" for x in c) for c in columns)]))
    return "\n".join(lines)


def reached(run: CollocationRun, method: str) -> str:
    """The number of rounds needed; if never reached, the best collocation and in how many
    rounds."""
    history = run.histories[method]
    needed = run.rounds_of(method)
    if needed is not None:
        return str(needed)
    return f"not in {len(history)} ({best_within(history, run.setting.bound):.0f} %)"


def progress_table(run: CollocationRun) -> str:
    """Collocation, load distance and moves by round; empty where a method had ended."""
    methods = [m for m in METHODS if m in run.histories]
    heads = ["round", *(WORDS[m] for m in methods)]
    lines = [line(heads), line(["---"] * len(heads))]
    longest = max(len(run.histories[m]) for m in methods)
    lines += [
        line([str(number), *(_at(run.histories[m], number) for m in methods)])
        for number in SHOWN_ROUNDS
        if number <= longest
    ]
    return "\n".join(lines)


def _at(history: History, number: int) -> str:
    if number > len(history):
        return ""
    found = history[number - 1]
    return f"{found.collocation:.1f} / {found.load_distance:.1f} / {found.moves}"


def verdict_table(found: Sequence[WorstCaseVerdict]) -> str:
    heads = ["ours", "limit", "worst", "where", "verdict"]
    return "\n".join([line(heads), line(["---"] * len(heads)), *(v.text() for v in found)])


def progress_line(run: CollocationRun) -> str:
    """One line of progress for a finished instance."""
    figures = ", ".join(f"{WORDS[m]} {reached(run, m)}" for m in METHODS if m != OURS)
    return (
        f"{run.setting.name}, seed {run.index + 1}: 90 % is {run.wanted:.1f} %, lower bound "
        f"{run.fewest}, ours {reached(run, OURS)}, {figures}"
    )
