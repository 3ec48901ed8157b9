"""Compares what the counting job counted with the visits that there were."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class VisitCounts:
    """What the state of the job holds, and how much work it took."""

    visits: int
    """Visits up to the last one that was counted."""
    lost: int
    """Visits that no count contains."""
    doubled: int
    """Visits that a count contains more than once."""
    repeated: int
    """Visits that were processed again after a rescale or a failure; their counts went back."""

    @property
    def is_exact(self) -> bool:
        """Whether every visit is in its count once."""
        return self.lost == 0 and self.doubled == 0


def visit_counts(folder: Path) -> VisitCounts:
    """Read the logs of all subtasks, past ones too.

    A line has the page, its count and the number of the visit. The last count of a page is its
    highest one: after a restart the job counts on from a checkpoint and writes lines again.
    """
    visits: dict[int, set[int]] = defaultdict(set)
    count: dict[int, int] = defaultdict(int)
    lines = 0
    for log in sorted(folder.glob("*.log")):
        for line in log.read_text(encoding="utf-8").splitlines(keepends=True):
            fields = line.split()
            if len(fields) != 3 or not line.endswith("\n"):
                # A killed process cuts its last line off.
                continue
            page, counted, visit = map(int, fields)
            visits[page].add(visit)
            count[page] = max(count[page], counted)
            lines += 1
    seen = set().union(*visits.values()) if visits else set()
    expected = max(seen) + 1 if seen else 0
    lost = expected - len(seen) + sum(max(0, len(visits[p]) - count[p]) for p in visits)
    doubled = sum(max(0, count[p] - len(visits[p])) for p in visits)
    return VisitCounts(expected, lost, doubled, lines - len(seen))
