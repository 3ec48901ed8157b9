"""[DODO, 6.4 and 7.2]: the costs that the printed figures imply, the cases, and the sweep.

The paper prints throughputs only. In a fluid model three of them determine the three costs. 6.4:
two operators on one node pass 16K, extractor and count on six nodes 30K (16K + 87.73 %), extractor
and top N on one node 6K. 7.2: two operators on three nodes pass 9,500; one of them alone on three
nodes, after the other has moved away, 14,400; the extractor on six nodes 16,700. In both, the count
costs about 0.3 of the extractor.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from bench.common.seeds import seed_of
from bench.scaling import keygroups, operators
from bench.scaling.course import DECIDE_S, Course, Experiment
from bench.scaling.operators import Mapper
from bench.simulator.pipeline import Ramp
from solvers.scale import Boundaries, Policy

Costs = tuple[float, float, float]

OURS, OURS_SCALED = "ours", "ours, scaling"
NO_OPT, WITHOUT, PAPER = "as deployed", "Algorithm 1 w/o capacity", "Algorithm 1"
SCALED, SCALED_ONLY = "Algorithms 1 and 2", "Algorithm 2"
EVEN = ", even"
"""The same with operators spread evenly over their cluster, as the paper assumes. No hash is as
even."""

EXTREME, OPTIMAL, FIXED = "6.4 extreme", "6.4 optimal", "7.2"
AS_PRINTED = "as print implies"
RATIOS: dict[str, Costs | None] = {
    AS_PRINTED: None,
    "1 : 1 : 1": (1, 1, 1),
    "4 : 1 : 1": (4, 1, 1),
    "1 : 4 : 1": (1, 4, 1),
    "1 : 1 : 4": (1, 1, 4),
    "8 : 2 : 1": (8, 2, 1),
}
"""Costs of extractor, count and top N. Their sum is the printed one, and so is the fluid bound."""
POLICY = Policy(
    method="thresholds",
    boundaries=Boundaries(lower=0.3, target=0.65, upper=0.85),
    min_nodes=1,
    max_nodes=15,
    interval_s=DECIDE_S,
    launch_s=120.0,
    cool_down_s=2 * DECIDE_S,
)
"""The same for the paper's clusters and for Ballast's. The paper prints the cap, but no numbers."""
PRINTED_MINUTES = 40.0
"""Duration of the ramp of 7.2 in the paper; here it continues until the bound is passed."""


def costs_64() -> Costs:
    """e + c, c + t and e + t in ms, from 30,037, 16,000 and 6,000 tweets a second."""
    e_c, c_t, e_t = 6e3 / (16_000 * 1.8773), 1e3 / 16_000, 1e3 / 6_000
    half = (e_c + c_t + e_t) / 2
    return half - c_t, half - e_t, half - e_c


def costs_72() -> Costs:
    both, alone, extractor = 3e3 / 9_500, 3e3 / 14_400, 6e3 / 16_700
    return extractor, both - alone, alone


def scaled(ratio: Costs | None, printed: Costs) -> Costs:
    if ratio is None:
        return printed
    factor = sum(printed) / sum(ratio)
    e, c, t = (factor * part for part in ratio)
    return e, c, t


def experiments(ratio: Costs | None) -> dict[str, Experiment]:
    """The experiments, without the generators and their nodes, which only make the ramp."""
    slow, fast = Ramp(20, 20, 1), Ramp(250, 25, 3)
    six_one = Experiment(EXTREME, scaled(ratio, costs_64()), (6, 1), (0, 1, 1), slow, 40, cap=7)
    return {
        EXTREME: six_one,
        OPTIMAL: replace(six_one, name=OPTIMAL, mapping=(0, 0, 1)),
        FIXED: Experiment(FIXED, scaled(ratio, costs_72()), (12, 3), (0, 1, 1), fast, 60, cap=15),
    }


@dataclass(frozen=True)
class Trial:
    """One case at one ratio of costs, by every method."""

    case: str
    ratio: str
    bound: float
    courses: dict[str, Course]

    def gain(self, method: str) -> float:
        """Percent of throughput above that of the deployment, evenly spread, in the last round."""
        return 100 * (self.courses[method].steady / self.courses[NO_OPT + EVEN].steady - 1)

    def of_bound(self, method: str) -> float:
        return self.courses[method].steady / self.bound


def trial_of(seed_base: int, case: str, ratio: str) -> Trial:
    experiment = experiments(RATIOS[ratio])[case]
    seed = seed_of(seed_base, f"{case}, {ratio}", 0)
    courses = _papers(experiment, OF_CASE[case])
    courses[OURS] = keygroups.KeyGroupNodes(experiment, seed).run(None)
    if case == FIXED:
        courses[OURS_SCALED] = keygroups.KeyGroupNodes(_small(experiment), seed).run(POLICY)
    return Trial(case, ratio, 1e3 * experiment.cap / sum(experiment.cost_ms), courses)


def _papers(experiment: Experiment, methods: dict[str, Mapper]) -> dict[str, Course]:
    found = {}
    for method, mapper in methods.items():
        start = _small(experiment) if mapper.policy is not None else experiment
        found[method + EVEN] = operators.run(start, replace(mapper, evenly=True))
        found[method] = operators.run(start, mapper)
    return found


def _small(experiment: Experiment) -> Experiment:
    """The initial deployment of scaling: one node for each cluster."""
    return replace(experiment, sizes=(1, 1))


BALANCED = {NO_OPT: Mapper(), PAPER: Mapper(balances=True)}
SIX_FOUR = {**BALANCED, WITHOUT: Mapper(balances=True, weighs=False)}
SEVEN_TWO = {
    **BALANCED,
    SCALED_ONLY: Mapper(policy=POLICY),
    SCALED: Mapper(balances=True, policy=POLICY),
}
OF_CASE = {EXTREME: SIX_FOUR, OPTIMAL: SIX_FOUR, FIXED: SEVEN_TWO}
