"""Weights of an ordered region on loopback TCP: [MW16-REGIONS, 6], with the printed figures.

    python -m bench.weights                 every setting and method (make bench-weights)
    python -m bench.weights --docs          and write docs/bench-weights.md with its pictures
    python -m bench.weights --docs --reuse  the page again, from the results of the last run
    python -m bench.weights --settings 0 3

Exit 0: every verdict holds; 1: one does not.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path

from bench.common.runner import Benchmark, Revision, Stopwatch, add_out, conclude, verdict_rows
from bench.weights import plots, report, verdicts
from bench.weights.methods import METHODS
from bench.weights.pool import file_of, read, run_all
from bench.weights.run import RegionRun
from bench.weights.settings import RegionSetting, settings

BENCHMARK = Benchmark("weights", "Weights of an ordered region", __doc__)


def main(arguments: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(arguments)
    chosen = [settings()[i] for i in args.settings]
    folder = args.out or BENCHMARK.results
    folder.mkdir(parents=True, exist_ok=True)
    about = folder / "about.json"
    if not args.reuse:
        about.write_text(json.dumps(measure(chosen, folder)), encoding="utf-8")
    runs = [read(file_of((s, m), folder)) for s in chosen for m in METHODS]
    found = verdicts.verdicts(chosen, runs)
    words = report.words(json.loads(about.read_text(encoding="utf-8")), runs)
    text = report.page(words, chosen, runs, found)
    (folder / "table.md").write_text(text, encoding="utf-8")
    rows = json.dumps(verdict_rows(found), indent=1)
    (folder / "verdicts.json").write_text(rows, encoding="utf-8")
    if args.docs:
        _write_docs(chosen, runs, text)
    return conclude(text, holds=all(v.holds for v in found))


def measure(chosen: Sequence[RegionSetting], folder: Path) -> dict[str, str | float]:
    """Run all settings and methods, write their files, and return commit, machine and duration."""
    about: dict[str, str | float] = {
        "commit": Revision.of(None).short_commit,
        "cores": os.cpu_count() or 0,
    }
    watch = Stopwatch()
    tasks = [(setting, method) for setting in chosen for method in METHODS]
    for number, found in enumerate(run_all(tasks, folder), 1):
        print(f"[{number}/{len(tasks)}] {_said(found)}", flush=True)
    python = platform.python_version()
    return {**about, "python": python, "minutes": watch.minutes}


def _said(found: RegionRun) -> str:
    cut = "" if found.is_done else f" of {found.records}"
    return f"{found.setting}, {found.method}: {found.merged}{cut} records, {found.seconds:.1f} s"


def _parser() -> argparse.ArgumentParser:
    parser = BENCHMARK.parser()
    add = parser.add_argument
    numbers = range(len(settings()))
    add("--settings", type=int, nargs="+", choices=numbers, default=list(numbers))
    add_out(parser, "the results")
    add("--reuse", action="store_true", help="measure nothing, take what the folder has")
    BENCHMARK.add_docs(parser, "its pictures")
    return parser


def _write_docs(chosen: Sequence[RegionSetting], runs: Sequence[RegionRun], text: str) -> None:
    for name, caption in plots.draw(chosen, runs, BENCHMARK.picture.parent).items():
        text += f"\n![{caption}](images/{name})\n\n{caption}.\n"
    BENCHMARK.write_page(text)
