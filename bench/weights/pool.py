"""Runs regions side by side, as many as the machine can run, each in a process of its own."""

from __future__ import annotations

import json
import multiprocessing
import multiprocessing.connection
from collections.abc import Iterator, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

from bench.weights.run import RegionRun, run
from bench.weights.settings import RegionSetting

MOST = 9_000.0
"""Largest sum of the records per second of all running regions at full capacity. Two cores are then
about half busy, and timers stay exact."""

Task = tuple[RegionSetting, str]


def run_all(tasks: Sequence[Task], folder: Path, most: float = MOST) -> Iterator[RegionRun]:
    """Run the largest first, each as soon as there is capacity; yield results as runs end."""
    waiting = sorted(tasks, key=lambda task: -_needs(task))
    running: dict[BaseProcess, Task] = {}
    while waiting or running:
        room = most - sum(_needs(task) for task in running.values())
        for task in list(waiting):
            if _needs(task) <= room or not running:
                room -= _needs(task)
                waiting.remove(task)
                running[_start(task, folder)] = task
        multiprocessing.connection.wait([process.sentinel for process in running])
        for process in [p for p in running if p.exitcode is not None]:
            yield _result(process, running.pop(process), folder)


def _needs(task: Task) -> float:
    return float(task[0].final_capacities.sum())


def _start(task: Task, folder: Path) -> BaseProcess:
    file_of(task, folder).unlink(missing_ok=True)
    # This process has no threads, so that a fork is safe, and everything is imported already.
    process = multiprocessing.get_context("fork").Process(target=_to_file, args=(task, folder))
    process.start()
    return process


def _result(process: BaseProcess, task: Task, folder: Path) -> RegionRun:
    file = file_of(task, folder)
    if not file.exists():
        raise RuntimeError(f"{file.stem} ended with {process.exitcode} and without a result")
    return read(file)


def _to_file(task: Task, folder: Path) -> None:
    found = run(*task)
    file = file_of(task, folder)
    part = file.with_suffix(".part")
    part.write_text(json.dumps(found.to_dict()), encoding="utf-8")
    part.rename(file)


def file_of(task: Task, folder: Path) -> Path:
    setting, method = task
    return folder / f"{setting.name}, {method}.json"


def read(file: Path) -> RegionRun:
    return RegionRun.from_dict(json.loads(file.read_text(encoding="utf-8")))
