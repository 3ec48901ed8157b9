"""Scaling and placing beside what [ICDE17] and [AUTODASP17] and [DODO] print.

    python -m bench.scaling                    everything (make bench-scaling)
    python -m bench.scaling --docs             and write docs/bench-scaling.md with its picture
    python -m bench.scaling --only substreams --seeds 1 --seed-base 1f

Nothing is timed but the command itself: the same seeds print the same figures anywhere.
Exit 0: every verdict holds; 1: one does not.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.common.seeds import ROOT, base_of, commit
from bench.scaling import dodo, draining, placing, plots, report, streams, verdicts
from bench.scaling.dodo import Trial
from bench.scaling.draining import Drain
from bench.scaling.streams import Outcome
from bench.simulator.substreams import LAWS

SEEDS = 4
PROCESSES = 2
PARTS = ("scale-in", "dodo", "substreams")

Task = tuple[Callable[..., Any], tuple[Any, ...]]


@dataclass(frozen=True)
class Found:
    """What was measured, in the order of the tables."""

    drains: tuple[Drain, ...]
    trials: tuple[Trial, ...]
    outcomes: tuple[Outcome, ...]

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
    """Every seed at the usual number of instances, the first one at the others as well."""
    return [
        (streams.outcome_of, (base, law, method, index, n))
        for law in LAWS
        for method in placing.METHODS
        for n in streams.SPEED_UPS
        for index in range(seeds if n == streams.INSTANCES else 1)
    ]


def measure(tasks: dict[str, list[Task]], processes: int) -> Found:
    with ProcessPoolExecutor(processes) as pool:
        # The longest first, so that no core is left with them at the end.
        runs = {
            part: [pool.submit(_timed, function, *given) for function, given in tasks[part]]
            for part in reversed(PARTS)
        }
        drains, trials, outcomes = (tuple(run.result() for run in runs[part]) for part in PARTS)
    return Found(drains, trials, outcomes)


def _timed(function: Callable[..., Any], *given: Any) -> Any:
    started = time.monotonic()
    result = function(*given)
    what = ", ".join(map(str, given[1:]))
    print(f"{function.__name__} {what}: {time.monotonic() - started:.0f} s", flush=True)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(arguments)
    # Asked once: others may commit while this runs.
    at = commit()
    base = base_of(args.seed_base or at)
    started = time.monotonic()
    found = measure(tasks_of(args.only, args.seeds, base), args.processes)
    judged = found.verdicts()
    words = _words(at, base, args.seeds, (time.monotonic() - started) / 60)
    text = report.page(words, found.drains, found.trials, found.outcomes, judged)
    out = args.out or ROOT / ".ballast" / "bench-scaling" / f"{base:x}"
    _write(out, at, found, judged, text)
    if args.docs:
        _write_docs(found, text)
    holds = all(v.holds for v in judged)
    print(
        f"\n{text}\n{'every verdict holds' if holds else 'A VERDICT DOES NOT HOLD'}; files: {out}"
    )
    return 0 if holds else 1


def _words(at: str, base: int, seeds: int, minutes: float) -> str:
    return (
        f"Made by `make bench-scaling` (`python -m bench.scaling --docs`) at commit {at[:12]}, "
        f"seed base {base:x}, {seeds} seeds, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, {minutes:.0f} minutes. Everything runs in the simulator "
        "(`bench/simulator`), is seeded and stops after steps, so the same seeds give the same "
        "figures on any machine. Our plans for [ICDE17] and [DODO] went through `solvers.verify` "
        "before they came into force. What of a paper's setting is not in print is named in the "
        "code beside the value chosen."
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.scaling", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("--seed-base", help="hexadecimal; the commit's hash unless given")
    add("--seeds", type=int, default=SEEDS, help="instances of each setting")
    add("--only", nargs="+", choices=PARTS, default=list(PARTS), help="some of the parts")
    add("--processes", type=int, default=PROCESSES)
    add("--out", type=Path, help="folder for results.json, table.md and plot.svg")
    add("--docs", action="store_true", help="write docs/bench-scaling.md and its picture")
    return parser


def _write(out: Path, at: str, found: Found, judged: Sequence[verdicts.Verdict], text: str) -> None:
    out.mkdir(parents=True, exist_ok=True)
    content = {
        "commit": at,
        "scale_in": [asdict(d) for d in found.drains],
        "dodo": [asdict(t) for t in found.trials],
        "substreams": [o.to_dict() for o in found.outcomes],
        "verdicts": [{**asdict(v), "holds": v.holds} for v in judged],
    }
    (out / "results.json").write_text(json.dumps(content, indent=1), encoding="utf-8")
    (out / "table.md").write_text(text, encoding="utf-8")
    plots.draw(found.drains, found.trials, found.outcomes, out / "plot.svg")


def _write_docs(found: Found, text: str) -> None:
    docs = ROOT / "docs"
    picture = "images/bench-scaling.svg"
    plots.draw(found.drains, found.trials, found.outcomes, docs / picture)
    caption = "Load distance by round, throughput under the ramps, imbalance against state moved"
    page = f"# Scaling and placing\n\n{text}\n![{caption}]({picture})\n"
    (docs / "bench-scaling.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
