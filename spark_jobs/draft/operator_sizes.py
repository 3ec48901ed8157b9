"""Decide on the instances of each operator, for engines whose plans say just that. Pure.

The loads of the statistics period are of subtasks. A decision uses the busiest subtask of each
operator, because a subtask cannot take work of another one.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import pyarrow as pa

from ballast.contracts import scaling
from ballast.contracts.engine import CAPABILITIES, FlinkEngine
from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import Ack, ScalingRow, SourceRate
from solvers.model.problem import Problem
from solvers.planner.round import ScalingRequest
from solvers.scale import (
    Edge,
    NodeSample,
    Observation,
    OperatorSample,
    ScalingAction,
    ScalingDecision,
    SourceSample,
)
from solvers.scale.operator_sizes import OperatorSize, SizesDecision, SizesHistory, decide_sizes
from spark_jobs.draft.scaling_inputs import EarlierScaling, ScalingInputs, decision_policy

PAUSES_USED = 5
"""The newest measured pauses say what the next restart costs."""
SKEW_SHOWN = 1.1
"""Busiest subtask over the mean, from which a plan says that an operator is skewed."""
LEAST_BUSY = 1e-6
"""Busy time of an operator that has records and is faster than its engine can measure."""
CAPACITY, CAPACITY_BEFORE = "capacity_records_per_s", "capacity_before_records_per_s"


@dataclass(frozen=True)
class OperatorLoad:
    """What the subtasks of one operator did in the statistics period."""

    records_per_s: float
    busy: tuple[float, ...]
    """Busy seconds a second of each subtask that exists."""

    @property
    def busiest(self) -> float:
        """Of the subtask with the most work."""
        return max(self.busy)

    @property
    def skew(self) -> float:
        """Busiest subtask over the mean; 1 if nothing was done."""
        mean = statistics.fmean(self.busy)
        return self.busiest / mean if mean > 0 else 1.0

    def capacity(self, size: int) -> float | None:
        """Records per second with so many subtasks, if the skew stays; None if nothing was done."""
        if self.busiest <= 0 or self.records_per_s <= 0:
            return None
        return self.records_per_s / self.busiest * size / len(self.busy)


@dataclass(frozen=True)
class SizesPlan:
    """The sizes of a plan, and what they are expected to bring."""

    decision: SizesDecision
    loads: Mapping[str, OperatorLoad]

    @property
    def as_scaling(self) -> ScalingDecision:
        """The decision as one that leaves the nodes as they are."""
        decision = self.decision
        worst = max((o.utilisation or 0.0 for o in decision.operators), default=0.0)
        return ScalingDecision(
            ScalingAction.HOLD,
            {"": 1},
            {"": 1},
            reason="; ".join((decision.reason, *skew_findings(self))),
            binding=decision.binding,
            would_change=decision.would_change,
            needs={} if decision.missing else {"": 1},
            utilisation={} if decision.missing else {"": worst},
            missing=decision.missing,
            parallelism=decision.sizes,
        )

    @property
    def request(self) -> ScalingRequest:
        """The request of a round that decides on sizes alone."""
        decided = self.as_scaling
        return ScalingRequest(lambda *_: decided)


def has_sizes(policy: JobPolicy) -> bool:
    """Whether plans of the job say how many instances each operator has."""
    return CAPABILITIES[policy.engine.kind].sizes and policy.scaling is not None


def sizes_in_force(policy: JobPolicy, rows: Sequence[ScalingRow]) -> dict[str, int]:
    """Instances of each operator under the plan in force, or as the policy says the job starts.

    Args:
        policy: its engine has sizes.
        rows: rows of plans.scaling of the plan in force.
    """
    engine = policy.engine
    first = engine.first_sizes if isinstance(engine, FlinkEngine) else {}
    return {**first, **{
        name: size for name, size in scaling.operator_sizes(scaling.scaled(rows)).items()
        if name in first
    }}  # fmt: skip


def plan_sizes(
    policy: JobPolicy,
    problem: Problem,
    inputs: ScalingInputs,
    before: Mapping[str, int],
    at: datetime,
) -> SizesPlan:
    """Decide how many instances each operator is to have.

    Args:
        policy: its scaling section has the boundaries.
        problem: the job as it was measured.
        inputs: loads, sources and earlier decisions.
        before: instances of each operator now.
        at: the end of the snapshot's period.
    """
    loads = operator_loads(inputs.key_groups, before)
    observation = _observation(policy, problem, inputs, loads, at)
    parameters = replace(
        decision_policy(policy, problem), restart_s=restart_s(policy, inputs.pauses)
    )
    history = sizes_history(inputs, before, at)
    return SizesPlan(decide_sizes(observation, before, parameters, history), loads)


def kept_sizes(before: Mapping[str, int]) -> SizesPlan:
    """The sizes of a round that changes none, because planning is stopped."""
    why, would = "planning is stopped", "planning that goes on"
    kept = tuple(OperatorSize(name, n, n, None, None, why, would) for name, n in before.items())
    reason = f"the sizes stay, because {why}"
    return SizesPlan(SizesDecision(kept, reason, "policy", would, missing=("a new decision",)), {})


def operator_loads(key_groups: pa.Table, sizes: Mapping[str, int]) -> dict[str, OperatorLoad]:
    """The loads of each operator's subtasks; operators that were not measured are left out.

    Args:
        key_groups: rows of snapshots.key_groups; a key group is a subtask.
        sizes: subtasks of each operator in the period; rows of higher numbers do not exist.
    """
    busy: dict[str, dict[int, float]] = {}
    records: dict[str, float] = {}
    columns = ("operator_id", "key_group", "cpu_load_cores", "records_per_s")
    for operator, number, load, rate in zip(
        *(key_groups[name].to_pylist() for name in columns), strict=True
    ):
        if number < sizes.get(operator, 0):
            busy.setdefault(operator, {})[number] = load
            records[operator] = records.get(operator, 0.0) + rate
    return {
        name: OperatorLoad(records[name], tuple(of[number] for number in sorted(of)))
        for name, of in busy.items()
        if len(of) == sizes[name]
    }


def restart_s(policy: JobPolicy, pauses: Sequence[Ack]) -> float:
    """Seconds that a change stops the job: the median of what was measured, or the policy's."""
    measured = [ack.pause_ms / 1000 for ack in pauses if ack.pause_ms > 0][-PAUSES_USED:]
    section = policy.scaling
    return statistics.median(measured) if measured else section.restart_s if section else 0.0


def sizes_history(inputs: ScalingInputs, before: Mapping[str, int], at: datetime) -> SizesHistory:
    """What earlier rounds needed, and when the sizes last changed."""
    rows = [row for row in inputs.earlier if row.subject == scaling.OPERATOR]
    needed: dict[datetime, dict[str, int]] = {}
    for row in rows:
        if row.needed is not None and row.period_end_at < at:
            needed.setdefault(row.period_end_at, {})[row.subject_id] = row.needed
    return SizesHistory(
        tuple(needed[when] for when in sorted(needed)), _changed_at_s(rows, inputs, before)
    )


def _changed_at_s(
    rows: Sequence[EarlierScaling], inputs: ScalingInputs, before: Mapping[str, int]
) -> float | None:
    """When the plan was decided that brought the sizes of today; None if none did."""
    by_plan: dict[tuple[datetime, str], dict[str, int]] = {}
    for row in rows:
        if row.plan_id in inputs.published and row.wanted is not None:
            by_plan.setdefault((row.decided_at, row.plan_id), {})[row.subject_id] = row.wanted
    since = None
    for (decided_at, _), sizes in sorted(by_plan.items(), reverse=True):
        if sizes != dict(before):
            break
        since = decided_at.timestamp()
    return since


def _observation(
    policy: JobPolicy,
    problem: Problem,
    inputs: ScalingInputs,
    loads: Mapping[str, OperatorLoad],
    at: datetime,
) -> Observation:
    cores = policy.nodes[0].capacity.cpu_cores
    busy = sum(sum(load.busy) for load in loads.values())
    return Observation(
        at_s=at.timestamp(),
        window_s=policy.statistics_period_s,
        nodes=(NodeSample(problem.node_ids[0], {"cpu": cores}, {"cpu": (busy,)}),),
        sources=tuple(
            SourceSample(row.source_id, row.operator_id, row.arrival_records_per_s,
                         row.backlog_records)
            for row in map(SourceRate.from_row, inputs.sources.to_pylist())
        ),
        operators=tuple(_samples(policy, loads)),
        edges=tuple(edges_of(policy, loads)),
        expected_sources=policy.entry_operators,
    )  # fmt: skip


def _samples(policy: JobPolicy, loads: Mapping[str, OperatorLoad]) -> Iterator[OperatorSample]:
    for operator in policy.operators:
        load = loads.get(operator.id)
        busy = None if load is None else max(load.busiest, LEAST_BUSY) * len(load.busy)
        rate = None if load is None else load.records_per_s
        yield OperatorSample(operator.id, rate, busy, operator.key_groups)


def edges_of(policy: JobPolicy, loads: Mapping[str, OperatorLoad]) -> Iterator[Edge]:
    """Records per second of each edge of the policy.

    Of a source it is known what goes out; it may be more than what the next operators take, while
    records wait between them. Of other operators only what comes in is known. Where an operator has
    several edges, its records are divided by what is known of their other ends.
    """
    rates = {name: load.records_per_s for name, load in loads.items()}
    for edge in policy.edges:
        source, target = edge.source, edge.target
        if source in policy.entry_operators:
            after = [each.target for each in policy.edges if each.source == source]
            rate = rates.get(source, 0.0) * _share(rates, target, after)
        else:
            before = [each.source for each in policy.edges if each.target == target]
            rate = rates.get(target, 0.0) * _share(rates, source, before)
        yield Edge(source, target, rate)


def _share(rates: Mapping[str, float], name: str, names: Sequence[str]) -> float:
    """The part of an operator in the records of several; even if none of them has any."""
    whole = sum(rates.get(each, 0.0) for each in names)
    return rates.get(name, 0.0) / whole if whole > 0 else 1.0 / len(names)


def size_rows(sizes: SizesPlan, like: Sequence[ScalingRow]) -> list[ScalingRow]:
    """The rows of plans.scaling for operators, with figures and a reason for each.

    Args:
        sizes: the plan.
        like: its rows for operators without figures.
    """
    by_name = {each.operator_id: each for each in sizes.decision.operators}
    return [_size_row(row, by_name[row.subject_id], sizes) for row in like]


def _size_row(row: ScalingRow, found: OperatorSize, sizes: SizesPlan) -> ScalingRow:
    load = sizes.loads.get(found.operator_id)
    capacities = {
        CAPACITY_BEFORE: load.capacity(found.before) if load else None,
        CAPACITY: load.capacity(found.size) if load else None,
    }
    known = {name: value for name, value in capacities.items() if value is not None}
    utilisation = found.utilisation
    return replace(
        row,
        before=found.before,
        needed=found.needed,
        utilisation=None if utilisation is None else min(utilisation, scaling.LARGEST_UTILISATION),
        loads_json=json.dumps(known, sort_keys=True) if known else None,
        reason=found.why,
        would_change=found.would_change,
    )


def skew_findings(sizes: SizesPlan) -> list[str]:
    """Operators whose subtasks have unequal work, and what spreading it evenly would bring."""
    needed = {each.operator_id: each.needed for each in sizes.decision.operators}
    findings = []
    for name, load in sizes.loads.items():
        want = needed.get(name)
        if len(load.busy) < 2 or load.skew < SKEW_SHOWN:
            continue
        text = (
            f"operator {name} is skewed: its busiest subtask has {load.skew:.2f} times the mean "
            "of all, and no plan moves key groups between subtasks"
        )
        if want is not None and round(want / load.skew) < want:
            even = max(1, round(want / load.skew))
            text += f"; spread evenly, about {even} subtasks would do the work of {want}"
        findings.append(text)
    return findings
