"""The claims about the region, each with its figure and its limit.

The limits are the printed figures of the paper; the others were chosen before the runs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.common.verdict import Verdict
from bench.weights.figures import Figures, by_method
from bench.weights.methods import ORACLE, OURS, PAPER, PLANS, REROUTING, ROUND_ROBIN, STATIC
from bench.weights.run import RegionRun
from bench.weights.settings import FAST_TO_SLOW, RegionSetting

TIMES_ROUND_ROBIN = {"6.3": 1.5, "6.4": 1.5, "6.6": 9.0}
"""Printed: 1.5-4 times up to 16 workers, close to 9 with 32 and 64."""
OF_ORACLE = 1.5
"""Ballast's loop takes at most this multiple of the oracle's time."""
EVEN_POINTS = 2.0
"""Equal workers: points of share by which a weight may be wrong at the end."""
HOST_POINTS = 3.0
"""Fast and slow hosts: points of share by which weights may differ from 65 / 35 at the end."""
NOT_SLOWER = 0.98
"""Share of another method's speed: two runs of one method differ by about a percent."""
OF_EVEN = 0.95
"""Equal workers: the time of round robin divided by that of Ballast's loop."""


def verdicts(chosen: Sequence[RegionSetting], runs: Sequence[RegionRun]) -> list[Verdict]:
    return [v for setting in chosen for v in _of_one(setting, by_method(setting, runs))]


def _of_one(setting: RegionSetting, rows: dict[str, Figures]) -> list[Verdict]:
    ours = rows[OURS]
    if setting.section == "6.2":
        return _even(setting, rows)
    # Where the load stays, the static best is the best of all methods from the start.
    others = (REROUTING, PAPER, STATIC) if setting.is_lifted else (REROUTING, PAPER)
    found = [_faster(setting, rows, method) for method in others]
    found.append(
        Verdict(
            f"{setting.name}: our loop's time over the oracle's",
            ours.seconds / rows[ORACLE].seconds,
            OF_ORACLE,
            at_least=False,
        )
    )
    if setting.section == "6.5":
        share = FAST_TO_SLOW / (1 + FAST_TO_SLOW)
        off = 100 * abs(float(ours.weights[0]) - share)
        found.append(Verdict(f"{setting.name}: points off 65", off, HOST_POINTS, at_least=False))
    if setting.section in TIMES_ROUND_ROBIN:
        limit = TIMES_ROUND_ROBIN[setting.section]
        found.insert(0, _times_round_robin(setting, rows, OURS, limit))
        found.insert(1, _times_round_robin(setting, rows, PLANS, 1.0))
    return found


def _even(setting: RegionSetting, rows: dict[str, Figures]) -> list[Verdict]:
    off = 100 * float(np.abs(rows[OURS].weights - 1 / setting.workers).max())
    return [
        Verdict(f"{setting.name}: points off an even share", off, EVEN_POINTS, at_least=False),
        _times_round_robin(setting, rows, OURS, OF_EVEN),
    ]


def _times_round_robin(
    setting: RegionSetting, rows: dict[str, Figures], method: str, limit: float
) -> Verdict:
    times = rows[ROUND_ROBIN].seconds / rows[method].seconds
    return Verdict(f"{setting.name}: {method}, times round robin", times, limit, at_least=True)


def _faster(setting: RegionSetting, rows: dict[str, Figures], method: str) -> Verdict:
    times = rows[method].seconds / rows[OURS].seconds
    return Verdict(f"{setting.name}: our loop, times {method}", times, NOT_SLOWER, at_least=True)
