"""Weights of an ordered region on loopback TCP: [MW16-REGIONS], 6, beside what it prints.

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
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from bench.common.seeds import ROOT, commit
from bench.weights import plots, report, verdicts
from bench.weights.methods import METHODS
from bench.weights.pool import file_of, read, run_all
from bench.weights.run import Run
from bench.weights.settings import Setting, settings


def main(arguments: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(arguments)
    chosen = [settings()[i] for i in args.settings]
    folder = args.out or ROOT / ".ballast" / "bench-weights"
    folder.mkdir(parents=True, exist_ok=True)
    about = folder / "about.json"
    if not args.reuse:
        about.write_text(json.dumps(measure(chosen, folder)), encoding="utf-8")
    runs = [read(file_of((s, m), folder)) for s in chosen for m in METHODS]
    found = verdicts.verdicts(chosen, runs)
    words = report.words(json.loads(about.read_text(encoding="utf-8")), runs)
    text = report.page(words, chosen, runs, found)
    (folder / "table.md").write_text(text, encoding="utf-8")
    content = [{**asdict(v), "holds": v.holds} for v in found]
    (folder / "verdicts.json").write_text(json.dumps(content, indent=1), encoding="utf-8")
    if args.docs:
        _write_docs(chosen, runs, text)
    holds = all(v.holds for v in found)
    print(f"\n{text}\n{'every verdict holds' if holds else 'A VERDICT DOES NOT HOLD'}")
    return 0 if holds else 1


def measure(chosen: Sequence[Setting], folder: Path) -> dict[str, str | float]:
    """Runs everything into files of the folder; says where and when."""
    about = {"commit": commit()[:12], "cores": os.cpu_count() or 0}
    started = time.monotonic()
    tasks = [(setting, method) for setting in chosen for method in METHODS]
    for number, found in enumerate(run_all(tasks, folder), 1):
        print(f"[{number}/{len(tasks)}] {_said(found)}", flush=True)
    python = platform.python_version()
    return {**about, "python": python, "minutes": (time.monotonic() - started) / 60}


def _said(found: Run) -> str:
    cut = "" if found.is_done else f" of {found.records}"
    return f"{found.setting}, {found.method}: {found.merged}{cut} records, {found.seconds:.1f} s"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.weights", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    numbers = range(len(settings()))
    add("--settings", type=int, nargs="+", choices=numbers, default=list(numbers))
    add("--out", type=Path, help="folder for the results")
    add("--reuse", action="store_true", help="measure nothing, take what the folder has")
    add("--docs", action="store_true", help="write docs/bench-weights.md and its pictures")
    return parser


def _write_docs(chosen: Sequence[Setting], runs: Sequence[Run], text: str) -> None:
    docs = ROOT / "docs"
    page = f"# Weights of an ordered region\n\n{text}"
    for name, caption in plots.draw(chosen, runs, docs / "images").items():
        page += f"\n![{caption}](images/{name})\n\n{caption}.\n"
    (docs / "bench-weights.md").write_text(page, encoding="utf-8")
