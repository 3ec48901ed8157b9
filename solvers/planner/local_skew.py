"""Skew that the load of the whole job hides: operators, edges, racks and key groups. Pure.

A job whose nodes have equal loads may have all key groups of one operator on one node. Each
operator and each edge is therefore measured by itself: how far the node (or rack) that has most of
it is above its fair share, in percent of that share. What no placement can avoid does not count: an
operator with fewer key groups than nodes cannot be level.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain

import numpy as np
from scipy.special import ndtri  # type: ignore[import-untyped]

from ballast.contracts.policy import JobPolicy
from solvers.model import metrics
from solvers.model.concentration import (
    Concentration,
    concentration,
    fair_shares,
    least_above_pct,
)
from solvers.model.problem import FloatArray, IntArray, Problem
from solvers.planner.local_loads import (
    EdgeTraffic,
    LocalLoad,
    LocalLoadKind,
    edge_loads,
    edges_with_traffic,
    operator_loads,
    rate_variance,
)

EDGE = "edge"
"""Kind of a finding about all records of an edge, whoever sends or receives them."""
TESTED_ROUNDS = 10
"""Rounds over which the chance of an alarm from noise alone is one minus ``min_gain_chance``."""
ROUNDING = 1e-9
"""Relative: an operator that is wholly on one of two nodes is 100 % above its fair share."""


class SkewStatus(StrEnum):
    """What is known of how level a part of a job is."""

    LEVEL = "level"
    SKEWED = "skewed"
    QUIET = "quiet"
    """Too little load to measure or to matter. It does not count as level."""
    UNKNOWN = "unknown"
    """Not measured, or for too few windows."""


class SkewScope(StrEnum):
    """The places that are compared."""

    NODE = "node"
    RACK = "rack"
    RACK_PAIR = "pair of racks"


@dataclass(frozen=True, slots=True)
class SkewRules:
    """When a part of a job counts as skewed."""

    threshold_pct: float = 100.0
    """How far above the unavoidable a node may be, in percent of its fair share."""
    quiet_share: float = 0.02
    """A part that adds no more than this share to the mean load of a node is quiet."""
    alarm_chance: float = 0.005
    """Chance of an alarm from noise alone, over all nodes of all parts together."""

    @classmethod
    def of(cls, policy: JobPolicy) -> SkewRules:
        thresholds = policy.thresholds
        return cls(
            threshold_pct=thresholds.operator_skew_pct,
            quiet_share=thresholds.good_enough_pct / 100.0,
            alarm_chance=(1.0 - thresholds.min_gain_chance) / TESTED_ROUNDS,
        )


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class SkewFinding:
    """How level one operator or edge is."""

    kind: str
    """``operator``, ``sent``, ``received`` or, for a pair of racks, ``edge``."""
    name: str
    scope: SkewScope
    status: SkewStatus
    place: str = ""
    """The node, the rack or the two racks with most."""
    share_pct: float = 0.0
    """Part of the operator's load or of the edge's records that is there."""
    above_pct: float = 0.0
    """How far that is above the fair share, in percent of the fair share."""
    least_pct: float = 0.0
    """No placement has less than this."""
    noise_pct: float = 0.0
    """What noise alone may show; 0 if the noise is not known."""
    resource: str = ""
    reason: str = ""
    """Why nothing is known of it, in a sentence."""
    load: LocalLoad | None = None

    @property
    def excess_pct(self) -> float:
        """How far above what a placement could have."""
        return max(0.0, self.above_pct - self.least_pct)

    @property
    def is_skewed(self) -> bool:
        return self.status is SkewStatus.SKEWED


@dataclass(frozen=True, slots=True)
class HeavyKeyGroup:
    """A key group that alone has more load than a node has on average."""

    key_group: int
    resource: str
    of_mean_pct: float
    """Its load in percent of the mean load of the largest node."""
    others: int
    """Number of other key groups of which the same is true."""


@dataclass(frozen=True, eq=False, slots=True)
class LocalSkew:
    """What the load of the whole job hides."""

    findings: tuple[SkewFinding, ...] = ()
    heavy_key_group: HeavyKeyGroup | None = None
    """The heaviest one; None if no key group is too heavy for a node."""
    edges_without_records: tuple[str, ...] = ()
    """Edges of the policy whose operators were measured, and that sent nothing."""

    @property
    def skewed(self) -> tuple[SkewFinding, ...]:
        """The worst first."""
        found = [finding for finding in self.findings if finding.is_skewed]
        return tuple(sorted(found, key=lambda finding: -finding.excess_pct))

    def of_status(self, status: SkewStatus) -> tuple[SkewFinding, ...]:
        """The findings with this status, in order."""
        return tuple(finding for finding in self.findings if finding.status is status)


@dataclass(frozen=True, eq=False, slots=True)
class Expected:
    """What a job has by its policy, beside what was measured."""

    operators: tuple[str, ...] = ()
    edges: tuple[str, ...] = ()
    """``a -> b``"""
    unmeasured: Mapping[str, str] = field(default_factory=dict)
    """Operators that were measured for too few windows, and why."""

    @classmethod
    def of(cls, policy: JobPolicy, unmeasured: Mapping[str, str]) -> Expected:
        edges = (f"{edge.source} -> {edge.target}" for edge in policy.edges)
        return cls(tuple(each.id for each in policy.operators), tuple(edges), unmeasured)


def local_skew(
    problem: Problem, assignment: IntArray, rules: SkewRules, expected: Expected | None = None
) -> LocalSkew:
    """How level each operator and each edge of a job is under an assignment.

    Args:
        problem: the job as it was measured.
        assignment: the node of each key group.
        rules: when a part counts as skewed.
        expected: operators and edges of the policy; by default those of the problem.
    """
    expected = expected or Expected()
    edges = edges_with_traffic(problem)
    loads = [*_parts_of_whole(problem, rules), *edge_loads(problem, edges)]
    check = _SkewCheck.of(problem, assignment, rules, len(loads))
    findings = [
        *_unknown(problem, expected),
        *chain.from_iterable(
            check.findings(load) for load in loads if load.operator_id not in expected.unmeasured
        ),
        *(check.between_racks(edge) for edge in edges if check.has_racks),
    ]
    measured = {edge.name for edge in edges}
    silent = [edge for edge in expected.edges if measured and edge not in measured]
    return LocalSkew(tuple(findings), _heavy_key_group(problem, rules, check.sigmas), tuple(silent))


def _parts_of_whole(problem: Problem, rules: SkewRules) -> list[LocalLoad]:
    """The loads of operators, without one that is all of a resource: its skew is not hidden."""
    return [load for load in operator_loads(problem) if load.job_share < 1.0 - rules.quiet_share]


def _unknown(problem: Problem, expected: Expected) -> Iterator[SkewFinding]:
    """Operators that were not measured, or for too few windows; their load does not count as
    zero."""
    present = set(problem.operator_ids)
    for name in expected.operators:
        reason = expected.unmeasured.get(name)
        if name not in present:
            reason = "the snapshot has no key group of it"
        if reason is not None:
            yield SkewFinding(
                kind=LocalLoadKind.OPERATOR, name=name, scope=SkewScope.NODE,
                status=SkewStatus.UNKNOWN, reason=reason,
            )  # fmt: skip


@dataclass(frozen=True, eq=False, slots=True)
class _SkewCheck:
    """Finds the skew of operators and edges under an assignment."""

    problem: Problem
    assignment: IntArray
    rules: SkewRules
    sigmas: float
    """Standard errors that noise alone does not exceed."""
    racks: tuple[str, ...]
    rack_of: IntArray
    """[N]"""

    @classmethod
    def of(cls, problem: Problem, assignment: IntArray, rules: SkewRules, parts: int) -> _SkewCheck:
        racks, rack_of = np.unique(np.array(problem.rack, dtype=str), return_inverse=True)
        tests = max(1, parts * int(np.count_nonzero(problem.staying)))
        sigmas = -float(ndtri(rules.alarm_chance / tests))
        return cls(problem, assignment, rules, sigmas, tuple(map(str, racks)), rack_of)

    @property
    def has_racks(self) -> bool:
        """Whether nodes of more than one rack stay."""
        return len(np.unique(self.rack_of[self.problem.staying])) > 1

    def findings(self, load: LocalLoad) -> Iterator[SkewFinding]:
        """How level a part is over nodes and over racks."""
        fair = fair_shares(self.problem.capacity[:, load.resource], self.problem.staying)
        nodes = self.assignment[load.key_groups]
        yield self._finding(load, SkewScope.NODE, nodes, fair)
        if self.has_racks:
            by_rack = self._fair_by_rack(fair)
            yield self._finding(load, SkewScope.RACK, self.rack_of[nodes], by_rack)

    def between_racks(self, edge: EdgeTraffic) -> SkewFinding:
        """How the records of an edge between racks are spread over the pairs of racks."""
        problem, racks = self.problem, len(self.racks)
        resource = int(np.argmax(problem.balanced_mask))
        fair = fair_shares(problem.capacity[:, resource], problem.staying)
        of_rack = self._fair_by_rack(fair)
        pairs, at = np.unique(self._rack_pairs(edge), return_inverse=True)
        one, other = pairs // racks, pairs % racks
        fair_of_pair = np.where(one == other, 0.0, 2.0 * of_rack[one] * of_rack[other])
        rates = np.zeros(0) if problem.traffic_rate is None else problem.traffic_rate[edge.rows]
        found = concentration(rates, at, fair_of_pair, rate_variance(problem, edge.rows))
        blank = SkewFinding(
            kind=EDGE, name=edge.name, scope=SkewScope.RACK_PAIR, status=SkewStatus.LEVEL
        )
        if edge.job_share <= self.rules.quiet_share * _least_fair(fair):
            return replace(blank, status=SkewStatus.QUIET)
        if found is None:
            return blank
        names = self.racks[one[found.place]], self.racks[other[found.place]]
        blank = replace(blank, place=f"{names[0]} and {names[1]}")
        return self._with_status(blank, found, 0.0, edge.job_share)

    def _fair_by_rack(self, fair: FloatArray) -> FloatArray:
        """Fair share of each rack, from those of its nodes."""
        sums = np.bincount(self.rack_of, weights=fair, minlength=len(self.racks))
        return np.asarray(sums, dtype=np.float64)

    def _rack_pairs(self, edge: EdgeTraffic) -> IntArray:
        """The two racks of each row of an edge's traffic, as one number."""
        problem = self.problem
        if problem.traffic_from is None or problem.traffic_to is None:
            return np.zeros(0, dtype=np.int64)
        ends = problem.traffic_from[edge.rows], problem.traffic_to[edge.rows]
        one, other = (self.rack_of[self.assignment[groups]] for groups in ends)
        return np.asarray(np.minimum(one, other) * len(self.racks) + np.maximum(one, other))

    def _finding(
        self, load: LocalLoad, scope: SkewScope, place: IntArray, fair: FloatArray
    ) -> SkewFinding:
        resource = self.problem.resources[load.resource]
        names = self.problem.node_ids if scope is SkewScope.NODE else self.racks
        found = concentration(load.amount, place, fair, load.variance)
        if found is None or self._is_quiet(load, fair):
            return SkewFinding(
                kind=load.kind, name=load.name, scope=scope, status=SkewStatus.QUIET,
                share_pct=100.0 * load.job_share, resource=resource,
            )  # fmt: skip
        blank = SkewFinding(
            kind=load.kind, name=load.name, scope=scope, status=SkewStatus.LEVEL,
            place=names[found.place], resource=resource, load=load,
        )  # fmt: skip
        return self._with_status(blank, found, self._least(load, place, fair), load.job_share)

    def _with_status(
        self, blank: SkewFinding, found: Concentration, least: float, job_share: float
    ) -> SkewFinding:
        noise = self.sigmas * found.sd_pct
        excess = found.above_pct - least
        status = SkewStatus.LEVEL
        if excess >= self.rules.threshold_pct * (1.0 - ROUNDING) and excess > noise:
            # The excess, as a share of all load that the place has on average.
            is_little = job_share * excess / 100.0 <= self.rules.quiet_share
            status = SkewStatus.QUIET if is_little else SkewStatus.SKEWED
        return replace(
            blank,
            status=status,
            share_pct=100.0 * found.share,
            above_pct=found.above_pct,
            least_pct=least,
            noise_pct=noise,
        )

    def _is_quiet(self, load: LocalLoad, fair: FloatArray) -> bool:
        """Whether all of the load is too small to matter on the smallest place, or within noise."""
        if load.job_share <= self.rules.quiet_share * _least_fair(fair):
            return True
        if load.variance is None:
            return False
        return float(load.amount.sum()) <= self.sigmas * float(np.sqrt(load.variance.sum()))

    def _least(self, load: LocalLoad, place: IntArray, fair: FloatArray) -> float:
        """How far above its fair share some place has to be, in any placement."""
        least = least_above_pct(load.amount, fair)
        pinned = self.problem.pinned_mask[load.key_groups]
        if not pinned.any():
            return least
        held = np.bincount(place[pinned], weights=load.amount[pinned], minlength=len(fair))
        share = held[fair > 0] / fair[fair > 0] / float(load.amount.sum())
        return max(least, 100.0 * (float(share.max(initial=0.0)) - 1.0))


def _least_fair(fair: FloatArray) -> float:
    """The fair share of the smallest place that counts."""
    return float(fair[fair > 0].min(initial=1.0))


def _heavy_key_group(problem: Problem, rules: SkewRules, sigmas: float) -> HeavyKeyGroup | None:
    """The key group that most exceeds the mean load of the largest node."""
    if not problem.staying.any():
        return None
    mean = metrics.mean_load(problem) * problem.capacity[problem.staying].max(axis=0)
    used = problem.balanced_mask & (mean > 0)
    relative = np.divide(problem.load, mean, out=np.zeros_like(problem.load), where=used)
    above = relative - 1.0 > rules.quiet_share
    if problem.noise is not None:
        noise = sigmas * np.sqrt(problem.noise.error_variance)
        above &= problem.load - mean > noise
    groups = above.any(axis=1)
    if not groups.any():
        return None
    group, r = np.unravel_index(int(np.argmax(np.where(above, relative, 0.0))), relative.shape)
    return HeavyKeyGroup(
        key_group=int(group),
        resource=problem.resources[int(r)],
        of_mean_pct=100.0 * float(relative[group, r]),
        others=int(np.count_nonzero(groups)) - 1,
    )
