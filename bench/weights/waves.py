"""Runs regions side by side, as many as the machine holds, each in a process of its own."""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Sequence
from pathlib import Path

from bench.weights.run import Run, run
from bench.weights.settings import Setting

MOST = 9_000.0
"""Records a second of all regions of a wave, were all at their full capacity: on two cores they
then take about half of the time, and timers keep theirs."""

Task = tuple[Setting, str]


def waves(tasks: Sequence[Task], most: float = MOST) -> list[list[Task]]:
    """In order; a method of a setting never waits for another setting's wave to fill."""
    grouped: list[list[Task]] = []
    room = 0.0
    for setting, method in tasks:
        needs = float(setting.final_capacities.sum())
        if not grouped or needs > room:
            grouped.append([])
            room = most
        grouped[-1].append((setting, method))
        room -= needs
    return grouped


def start_s(wave: Sequence[Task]) -> float:
    """Until all regions of a wave are up: processes are started one after the other."""
    return 4.0 + 0.25 * len(wave) + 0.03 * sum(setting.workers for setting, _ in wave)


def run_wave(wave: Sequence[Task], seconds: float, folder: Path) -> list[Run]:
    """All at the same time; what each found is a file of its own."""
    start = time.monotonic() + start_s(wave)
    context = multiprocessing.get_context("fork")
    files = [folder / f"{setting.name}, {method}.json" for setting, method in wave]
    processes = [
        context.Process(target=_run_to_file, args=(setting, method, seconds, start, file))
        for (setting, method), file in zip(wave, files, strict=True)
    ]
    for file in files:
        file.unlink(missing_ok=True)
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    missing = [file.stem for file in files if not file.exists()]
    if missing:
        raise RuntimeError(f"no result of {'; '.join(missing)}: see what they printed above")
    return [read(file) for file in files]


def _run_to_file(setting: Setting, method: str, seconds: float, start: float, file: Path) -> None:
    found = run(setting, method, seconds, start)
    part = file.with_suffix(".part")
    part.write_text(json.dumps(found.to_dict()), encoding="utf-8")
    part.rename(file)


def read(file: Path) -> Run:
    return Run.from_dict(json.loads(file.read_text(encoding="utf-8")))
