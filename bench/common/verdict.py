"""A claim with its figure and its limit, and whether it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.common.markdown import table


@dataclass(frozen=True)
class Verdict:
    """A claim; ``at_least`` says whether the limit is a lower or an upper one."""

    claim: str
    figure: float
    limit: float
    at_least: bool

    @property
    def holds(self) -> bool:
        return self.figure >= self.limit if self.at_least else self.figure <= self.limit


def judged(found: Sequence[Verdict], digits: int = 2) -> str:
    rows = [
        [
            v.claim,
            f"{v.figure:.{digits}f}",
            f"{'at least' if v.at_least else 'at most'} {v.limit:.{digits}f}",
            "holds" if v.holds else "DOES NOT HOLD",
        ]
        for v in found
    ]
    return table(["claim", "figure", "limit", "verdict"], rows)
