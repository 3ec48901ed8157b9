"""Progress of long commands on a terminal; nothing is printed to a file or a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ballast.cli.terminal import encodable, make_console, terminal_of

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from solvers.planner.frontier import FrontierPoint

REFRESHES_PER_S = 4
"""The solvers share the processor with the line that says how long they have run."""


class ProgressLine:
    """What a long command is doing; the methods of this class show nothing."""

    def begin(self, text: str, total: int | None = None) -> None:
        """Say what is being done, and how many steps it has if that is known."""

    def step(self, text: str) -> None:
        """Keep a line about a finished step."""

    def grow(self, total: int) -> None:
        """Set the number of steps that became known."""


class _TerminalProgress(ProgressLine):
    """A line at the bottom of a terminal that moves, with the finished steps above it."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.task: TaskID | None = None

    def begin(self, text: str, total: int | None = None) -> None:
        if self.task is not None:
            self.progress.remove_task(self.task)
        self.task = self.progress.add_task(_shown(text), total=total)

    def step(self, text: str) -> None:
        self.progress.console.print(_shown(text))
        if self.task is not None:
            self.progress.advance(self.task)

    def grow(self, total: int) -> None:
        if self.task is not None:
            self.progress.update(self.task, total=total)


@contextmanager
def show_progress(text: str, total: int | None = None) -> Iterator[ProgressLine]:
    """Show on standard error what the block does, if a person looks at it.

    Args:
        text: what is done.
        total: how many steps it has; None if that is not known.
    """
    terminal = terminal_of(sys.stderr)
    if not terminal.is_terminal:
        yield ProgressLine()
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = make_console(terminal, sys.stderr)
    progress = Progress(
        SpinnerColumn("dots" if terminal.has_unicode else "line"),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        console=console, transient=True, refresh_per_second=REFRESHES_PER_S,
        redirect_stdout=False, redirect_stderr=False,
    )  # fmt: skip
    with progress:
        line = _TerminalProgress(progress)
        line.begin(text, total)
        yield line


def print_message(text: str) -> None:
    """Print a line to standard error that a person or a log of a script needs."""
    print(encodable(text, sys.stderr), file=sys.stderr, flush=True)


class SweepProgress:
    """Callback of ``solvers.planner.frontier.sweep``; it is called after each point."""

    def __init__(self, line: ProgressLine) -> None:
        self.line = line
        self.done = 0

    def __call__(self, point: FrontierPoint, count: int) -> None:
        self.done += 1
        result = point.result
        found = f"load distance {result.load_distance:.4g} %" if result.is_solved else "infeasible"
        self.line.grow(count)
        budget = f"{point.unit} {limit_text(point)}"
        self.line.step(f"{self.done}/{count} {budget}: {found} ({result.seconds:.1f} s)")


def limit_text(point: FrontierPoint) -> str:
    """Return the budget of a point as text."""
    return "no limit" if point.limit is None else f"at most {point.limit:,}"


def _shown(text: str) -> str:
    return encodable(text, sys.stderr)
