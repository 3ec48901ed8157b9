"""Tables of the measurements, with the numbers that the text of [ICDE17, 5.4] prints."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from bench.real_jobs.methods import ALBIC, COLA, METHODS, NO_PLAN, OURS, WORDS
from bench.real_jobs.rounds import JobRound, JobRun

LAST = 3
"""Rounds at the end whose mean is a method's figure, because one round alone varies by chance."""

PRINTED = {
    "real_job_2": (
        "ALBIC's load index falls from 100 to 50 % at 10 migrations a round; COLA lowers the load "
        "by 25 % with close to 200 a round; both can collocate everything."
    ),
    "real_job_3": "The collocation factor is half of Real Job 2's. No load index is printed.",
    "real_job_4": (
        "COLA's collocation factor is around 61 %, ALBIC's becomes similar at 10 migrations a "
        "round. No load index is printed."
    ),
}


@dataclass(frozen=True)
class Ends:
    """A method's first round and the mean of its last ones."""

    collocation: tuple[float, float]
    load_index: float
    corrected_index: float
    load_distance: float
    between_mb: tuple[float, float]
    moves: float


def base_of(run: JobRun, of: str) -> float:
    """CPU time of one record in the first round.

    All methods have the same placement in that round, so the mean over all of them is the best
    estimate.
    """
    return statistics.mean(getattr(row, of) / row.records for row in run.rounds if row.number == 0)


def load_index(run: JobRun, row: JobRound) -> float:
    """CPU time per record, in percent of that of the first round."""
    return 100 * row.cpu_s / row.records / base_of(run, "cpu_s")


def corrected_index(run: JobRun, row: JobRound) -> float:
    """The load index in units of the probes around each key group: without the processor's
    speed."""
    return 100 * row.work / row.records / base_of(run, "work")


def ends(run: JobRun, method: str) -> Ends | None:
    rows = run.of(method)
    if not rows:
        return None
    last = [row for row in rows if row.number > 0][-LAST:] or rows
    mean = statistics.mean
    return Ends(
        (rows[0].collocation, mean(row.collocation for row in last)),
        mean(load_index(run, row) for row in last),
        mean(corrected_index(run, row) for row in last),
        mean(row.load_distance for row in last),
        (rows[0].between_bytes / 1e6, mean(row.between_bytes for row in last) / 1e6),
        mean(row.moves for row in rows[1:]) if rows[1:] else 0.0,
    )


def summary(runs: Sequence[JobRun]) -> str:
    """A row for each job and method: from the first round to the mean of the last ones."""
    lines = [
        (
            "| job | method | collocation factor, % | load index, % | corrected, % | "
            "load distance, % | MB between nodes a round | moves a round |"
        ),
        "|---|---|---|---|---|---|---|---|",
    ]
    for run in runs:
        for method in METHODS:
            found = ends(run, method)
            if found is not None:
                lines.append(
                    f"| {title(run)} | {WORDS[method]} | {found.collocation[0]:.1f} to "
                    f"{found.collocation[1]:.1f} | {found.load_index:.1f} | "
                    f"{found.corrected_index:.1f} | {found.load_distance:.1f} | "
                    f"{found.between_mb[0]:.2f} to {found.between_mb[1]:.2f} | {found.moves:.0f} |"
                )
    return "\n".join(lines)


def title(run: JobRun) -> str:
    return run.job.replace("_", " ").title()


def beside_print(runs: Sequence[JobRun]) -> str:
    """The claims of the paper in other words, and what was measured here."""
    lines = ["| job | printed | here |", "|---|---|---|"]
    lines += [f"| {title(run)} | {PRINTED[run.job]} | {_here(run)} |" for run in runs]
    return "\n".join(lines)


def _here(run: JobRun) -> str:
    parts = []
    for method in (OURS, ALBIC, COLA):
        found = ends(run, method)
        if found is not None:
            parts.append(
                f"{method}: collocation {found.collocation[1]:.0f} %, load index "
                f"{found.corrected_index:.0f} %, {found.moves:.0f} moves a round"
            )
    return "; ".join(parts)


def by_round(run: JobRun) -> str:
    """The figures of each method in every round."""
    methods = [m for m in METHODS if run.of(m)]
    planners = [m for m in methods if m != NO_PLAN]
    heads = (
        [f"collocation {m}" for m in planners]
        + [f"load index {m}" for m in methods]
        + [f"load distance {m}" for m in planners]
        + [f"MB between {m}" for m in planners]
        + ["MB from the source"]
        + [f"moves {m}" for m in planners]
    )
    lines = [f"| round | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    rows = {(row.method, row.number): row for row in run.rounds}
    for number in range(max(row.number for row in run.rounds) + 1):
        found = {m: rows.get((m, number)) for m in methods}
        any_row = next(row for row in found.values() if row is not None)
        cells = (
            [_cell(found[m], lambda r: f"{r.collocation:.1f}") for m in planners]
            + [_cell(found[m], lambda r: f"{corrected_index(run, r):.1f}") for m in methods]
            + [_cell(found[m], lambda r: f"{r.load_distance:.1f}") for m in planners]
            + [_cell(found[m], lambda r: f"{r.between_bytes / 1e6:.2f}") for m in planners]
            + [f"{any_row.source_bytes / 1e6:.2f}"]
            + [_cell(found[m], lambda r: str(r.moves)) for m in planners]
        )
        lines.append(f"| {number} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(row: JobRound | None, text: object) -> str:
    return "" if row is None else text(row)  # type: ignore[operator]


def serialisation(run: JobRun) -> str:
    """The most that sending could cost in the first round, and what collocation saved."""
    first = [row for row in run.rounds if row.number == 0]
    cpu_us = 1e6 * statistics.mean(row.cpu_s for row in first)
    sent = statistics.mean(row.sent_records for row in first)
    cost = sent * (run.send_us + run.receive_us)
    found = ends(run, OURS)
    saved = f"{100 - found.corrected_index:.1f}" if found else "?"
    records = statistics.mean(row.records for row in first)
    return (
        f"| {title(run)} | {cpu_us / records:.1f} | {sent / records:.2f} | "
        f"{run.send_us + run.receive_us:.2f} | {100 * cost / cpu_us:.1f} | {saved} |"
    )


def serialisation_table(runs: Sequence[JobRun]) -> str:
    head = (
        "| job | CPU us a line | records sent a line | us to send and receive one | "
        "their share of the CPU, % | saved by ours, % |\n|---|---|---|---|---|---|"
    )
    return "\n".join([head, *(serialisation(run) for run in runs)])


def document(runs: Sequence[JobRun], words: str, notes: str) -> str:
    """The page in docs/, below its title."""
    parts = [
        "Written by `make bench-real-jobs` (`python -m bench.real_jobs --docs`).",
        words,
        "## Compared with the print",
        beside_print(runs),
        "## From the first round to the last",
        summary(runs),
        "![Rounds](images/bench-real-jobs.svg)",
        "## Cost of sending",
        serialisation_table(runs),
        notes,
    ]
    for run in runs:
        parts += [f"## {title(run)} by round", by_round(run), _checked(run)]
    return "\n\n".join(parts) + "\n"


def _checked(run: JobRun) -> str:
    verdict = "equal to the input's" if run.is_exact else "NOT ALL equal to the input's"
    return (
        f"Sums stored at the end, by method, compared with pandas' from the input: {verdict}.\n\n"
        + "\n".join(f"- {text}" for text in run.checks)
    )
