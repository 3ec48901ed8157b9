"""The requirements: of drains and ramps the worst run counts, of streams the mean of the seeds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from bench.common.verdict import Verdict
from bench.scaling import dodo, placing
from bench.scaling.dodo import Trial
from bench.scaling.draining import Drain
from bench.scaling.streams import INSTANCES, StreamOutcome
from bench.simulator.scale_in import MOVES

LATER_AT_MOST = 1.2
OF_THE_BOUND = 0.98
OF_AN_EVEN_HASH = 0.99
"""An even spread equals the fluid bound if the nodes happen to fit the costs."""
PRINTED_GAINS = {dodo.EXTREME: 87.73, dodo.FIXED: 51.58}
PRINTED_SCALING = 75.79


def of_drains(drains: Sequence[Drain]) -> list[Verdict]:
    if not drains:
        return []
    claim = "Figure 5, integrated over separate, worst run: "
    return [
        Verdict(
            f"{claim}area under load distance until drained",
            max(d.area_ratio() for d in drains),
            1.0,
            at_least=False,
        ),
        Verdict(
            f"{claim}the same area over the same rounds",
            max(d.same_rounds_ratio() for d in drains),
            1.0,
            at_least=False,
        ),
        Verdict(
            f"{claim}rounds until drained",
            max(d.rounds_ratio() for d in drains),
            LATER_AT_MOST,
            at_least=False,
        ),
        Verdict(
            "Figure 5, integrated: most moves in a round",
            max(d.most_moves() for d in drains),
            MOVES,
            at_least=False,
        ),
    ]


def of_trials(trials: Sequence[Trial]) -> list[Verdict]:
    found: list[Verdict] = []
    for case in dict.fromkeys(t.case for t in trials):
        mine = [t for t in trials if t.case == case]
        pairs: list[tuple[str, tuple[str, ...]]] = [(dodo.OURS, (dodo.PAPER,))]
        if case == dodo.FIXED:
            pairs.append((dodo.OURS_SCALED, (dodo.SCALED_ONLY, dodo.SCALED)))
        for ours, theirs in pairs:
            found += _of_case(case, mine, ours, theirs)
        found += _beside_print(case, mine)
    return found


def _of_case(case: str, trials: Sequence[Trial], ours: str, theirs: Sequence[str]) -> list[Verdict]:
    over = min(t.courses[ours].steady / max(t.courses[m].steady for m in theirs) for t in trials)
    least = min(t.of_bound(ours) for t in trials)
    needless = max(t.courses[ours].needless for t in trials)
    what = f"{case}, {ours}, worst of {len(trials)} ratios of costs: "
    evenly = min(
        t.courses[ours].steady / max(t.courses[m + dodo.EVEN].steady for m in theirs)
        for t in trials
    )
    found = [
        Verdict(f"{what}throughput over that of {' and '.join(theirs)}", over, 1.0, at_least=True),
        Verdict(
            f"{what}the same, if a hash could spread theirs evenly",
            evenly,
            OF_AN_EVEN_HASH,
            at_least=True,
        ),
        Verdict(f"{what}throughput over the fluid bound", least, OF_THE_BOUND, at_least=True),
    ]
    if ours == dodo.OURS:
        found.append(Verdict(f"{what}needless moves", needless, 0, at_least=False))
    return found


def _beside_print(case: str, trials: Sequence[Trial]) -> list[Verdict]:
    """At the costs that the paper implies, Ballast gains at least what the paper reports of its
    method."""
    mine = [t for t in trials if t.ratio == dodo.AS_PRINTED]
    found = []
    if mine and case in PRINTED_GAINS:
        printed = PRINTED_GAINS[case]
        claim = f"{case}, ours: gain over as deployed in %, printed {printed:g}"
        found.append(Verdict(claim, mine[0].gain(dodo.OURS), printed, at_least=True))
    if mine and case == dodo.FIXED:
        claim = f"{case}, ours, scaling: the same, printed {PRINTED_SCALING:g}"
        gain = mine[0].gain(dodo.OURS_SCALED)
        found.append(Verdict(claim, gain, PRINTED_SCALING, at_least=True))
    return found


def of_outcomes(outcomes: Sequence[StreamOutcome]) -> list[Verdict]:
    """Compare Ballast with ELB and CLB on the same streams, in every figure."""
    usual = [o for o in outcomes if o.instances == INSTANCES]
    found = []
    for law in dict.fromkeys(o.law for o in usual):
        for other in (placing.ELB, placing.CLB):
            for figure in ("variance", "max - min", "state moved"):
                ratio = _mean(usual, law, placing.OURS, figure) / _mean(usual, law, other, figure)
                claim = f"{law}: {figure}, ours over {other}, mean of the seeds"
                found.append(Verdict(claim, ratio, 1.0, at_least=False))
    return found


def _mean(outcomes: Sequence[StreamOutcome], law: str, method: str, figure: str) -> float:
    """The mean over the seeds: the variance of one run has an error of about 4 %."""
    mine = [o.figures()[figure] for o in outcomes if (o.law, o.method) == (law, method)]
    return statistics.fmean(mine)
