"""Prepare a scaling decision from a snapshot and from earlier plans. Pure.

The history of scaling is what plans.scaling and plans.log had when the snapshot was taken. Solving
the snapshot again finds the same history.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ballast.contracts import scaling
from ballast.contracts.errors import InvalidInput
from ballast.contracts.policy import JobPolicy, NodePolicy, ScalingPolicy
from ballast.contracts.problem_columns import load_series
from ballast.contracts.records import Ack, ScalingRow, SourceRate
from solvers.model.node_set import NodeSpec
from solvers.model.problem import DEAD, FloatArray, Problem
from solvers.model.result import Result
from solvers.planner.node_changes import NodeChangeRules
from solvers.planner.round import DecideScaling, ScalingRequest, scaling_by_policy
from solvers.scale import (
    Boundaries,
    Edge,
    HotNode,
    NodeSample,
    Observation,
    OperatorSample,
    PastRound,
    Policy,
    ScalingAction,
    ScalingDecision,
    ScalingHistory,
    SourceSample,
)

CAPACITY_FIELDS = {"cpu": "cpu_cores", "memory": "memory_bytes", "network": "network_bytes_per_s"}


@dataclass(frozen=True)
class EarlierScaling:
    """What an earlier draft decided on a node, cluster or operator: columns of plans.scaling."""

    plan_id: str
    subject: str
    subject_id: str
    action: str
    needed: int | None
    utilisation: float | None
    drain_rounds: int | None
    loads_json: str | None
    period_end_at: datetime
    decided_at: datetime
    wanted: int | None = None

    @classmethod
    def of(cls, row: ScalingRow) -> EarlierScaling:
        """The same columns of a whole row."""
        return cls(**{each.name: getattr(row, each.name) for each in fields(cls)})


@dataclass(frozen=True)
class ScalingInputs:
    """What scaling needs beside the problem."""

    series: pa.Table
    """Rows of snapshots.load_series."""
    sources: pa.Table
    """Rows of snapshots.sources."""
    key_groups: pa.Table
    """Rows of snapshots.key_groups."""
    traffic: pa.Table
    """Rows of snapshots.traffic."""
    earlier: Sequence[EarlierScaling] = ()
    """Decisions of drafts before the snapshot, as far back as scaling remembers."""
    published: Collection[str] = field(default_factory=frozenset)
    """Plans that came into force before the snapshot."""
    unchanged: Collection[str] = field(default_factory=frozenset)
    """Drafts that changed nothing, so that there was nothing to publish."""
    pauses: Sequence[Ack] = ()
    """Acknowledgements of take-ups before the snapshot, with measured pauses, oldest first."""


@dataclass(frozen=True)
class Clusters:
    """Names of clusters: a decision for a job with one cluster uses the name ``\"\"``."""

    of_node: Mapping[str, str]

    @classmethod
    def of(cls, policy: JobPolicy) -> Clusters:
        return cls({node.id: node.cluster for node in policy.nodes})

    @property
    def only(self) -> str | None:
        """The only cluster; None if there are several."""
        names = set(self.of_node.values())
        return names.pop() if len(names) == 1 else None

    def inner(self, name: str) -> str:
        """A cluster's name in decisions."""
        return "" if self.only is not None else name

    def outer(self, name: str) -> str:
        """A cluster's name in tables."""
        return self.only if name == "" and self.only is not None else name

    def by_node(self) -> dict[str, str]:
        """The cluster of each node, by its name in decisions."""
        return {node: self.inner(name) for node, name in self.of_node.items()}


def scaling_request(
    policy: JobPolicy, problem: Problem, inputs: ScalingInputs, at: datetime
) -> ScalingRequest:
    """How a round decides on its nodes.

    Args:
        policy: its scaling section, its nodes and their clusters.
        problem: the job as it was measured.
        inputs: series, sources and earlier decisions.
        at: the end of the snapshot's period.
    """
    return ScalingRequest(
        scaling_of(policy, problem, inputs, at),
        drains=drains_of(problem, inputs),
        spares=spares_of(policy, problem),
        clusters=Clusters.of(policy).by_node(),
        rules=rules_of(policy),
    )


def keeping_nodes(request: ScalingRequest) -> ScalingRequest:
    """The request of a round that neither adds nor drains nodes, because planning is stopped."""
    stopped = _held("the nodes stay, because planning is stopped", "planning that goes on")
    return replace(request, decide=lambda *_: stopped)


def scaling_of(
    policy: JobPolicy, problem: Problem, inputs: ScalingInputs, at: datetime
) -> DecideScaling:
    """The function that decides on the number of nodes."""
    if policy.scaling is None:
        off = "the nodes stay, because the policy has no scaling section"
        return lambda *_: _held(off, "a scaling section in the policy")
    series, step_s = series_of(problem, inputs.series)
    observation = observation_of(policy, problem, inputs, series, step_s, at)
    history = history_of(policy, inputs)
    decide = scaling_by_policy(observation, decision_policy(policy, problem), history, series)

    def decide_or_hold(problem: Problem, potential: Result, hot: HotNode | None) -> ScalingDecision:
        """Keep the nodes if the decision fails: the load can be levelled nevertheless."""
        try:
            return decide(problem, potential, hot)
        except InvalidInput as error:
            return _held(f"no scaling, because {error}", "what the reason says to do")

    return decide_or_hold


def _held(reason: str, would_change: str) -> ScalingDecision:
    """The nodes stay as they are."""
    return ScalingDecision(
        ScalingAction.HOLD, {}, {}, reason=reason, binding="policy", would_change=would_change
    )


def rules_of(policy: JobPolicy) -> NodeChangeRules:
    """Bounds on the nodes that one round may change."""
    leaving = frozenset(node.id for node in policy.nodes if node.draining)
    if policy.scaling is None:
        return NodeChangeRules(leaving=leaving)
    upper, rounds = policy.scaling.boundaries.upper, policy.scaling.max_drain_rounds
    return NodeChangeRules(upper, rounds, leaving=leaving)


def spares_of(policy: JobPolicy, problem: Problem) -> list[NodeSpec]:
    """Nodes of the policy that are not in use: they were never used, or a plan removed them."""
    cluster_of = Clusters.of(policy).by_node()
    return [
        NodeSpec(node.id, capacity_of(node, problem.resources), node.rack, cluster_of[node.id])
        for node in policy.nodes
        if node.id not in problem.node_ids and not node.draining
    ]


def capacity_of(node: NodePolicy, resources: Sequence[str]) -> tuple[float, ...]:
    """A node's capacity in the order of the resources. The policy has checked that it has one."""
    return tuple(float(getattr(node.capacity, CAPACITY_FIELDS[name])) for name in resources)


def decision_policy(policy: JobPolicy, problem: Problem) -> Policy:
    """The scaling section of the policy as parameters of ``solvers.scale``."""
    section = policy.scaling or ScalingPolicy()
    spare = next(iter(spares_of(policy, problem)), None)
    new = dict(zip(problem.resources, spare.capacity, strict=True)) if spare else {}
    same = (
        "method", "resource", "min_nodes", "interval_s", "launch_s", "shutdown_s", "billing_s",
        "cool_down_s", "stabilisation_rounds", "min_benefit", "max_step_out", "max_step_in",
        "min_coverage", "max_full_windows", "catch_up_s", "restart_s", "backlog_threshold_s",
        "busy_per_node", "season_s", "horizon_s", "memory_rounds",
    )  # fmt: skip
    return Policy(
        **{name: getattr(section, name) for name in same},
        boundaries=Boundaries(**section.boundaries.model_dump()),
        limits={name: Boundaries(**of.model_dump()) for name, of in section.limits.items()},
        max_nodes=section.max_nodes or len(policy.nodes),
        new_node_capacity=new,
    )


def series_of(problem: Problem, rows: pa.Table) -> tuple[FloatArray, float]:
    """[key groups, resources, steps], and the mean length of a step in seconds.

    A key group without a series was on a dead node. Its last known load counts as constant.
    """
    if not rows.num_rows:
        return problem.load[:, :, None], 1.0
    series = load_series(problem, rows)
    by_step = rows.group_by("step").aggregate([("step_s", "max")])
    return series, float(pc.mean(by_step["step_s_max"]).as_py())


def observation_of(
    policy: JobPolicy,
    problem: Problem,
    inputs: ScalingInputs,
    series: FloatArray,
    step_s: float,
    at: datetime,
) -> Observation:
    """The statistics period as an observation for ``solvers.scale``."""
    return Observation(
        at_s=at.timestamp(),
        window_s=step_s,
        nodes=tuple(_node_samples(policy, problem, inputs, series)),
        sources=tuple(
            SourceSample(row.source_id, row.operator_id, row.arrival_records_per_s,
                         row.backlog_records)
            for row in map(SourceRate.from_row, inputs.sources.to_pylist())
        ),
        operators=tuple(_operator_samples(policy, inputs)),
        edges=tuple(_edges(policy, inputs.traffic)),
        expected_sources=policy.entry_operators,
    )  # fmt: skip


def _node_samples(
    policy: JobPolicy, problem: Problem, inputs: ScalingInputs, series: FloatArray
) -> Iterator[NodeSample]:
    by_node = np.zeros((problem.n_nodes, *series.shape[1:]))
    np.add.at(by_node, problem.current, series)
    cluster_of, started = Clusters.of(policy).by_node(), _started_at(inputs)
    for i, node_id in enumerate(problem.node_ids):
        use = {name: by_node[i, r].tolist() for r, name in enumerate(problem.resources)}
        yield NodeSample(
            node_id,
            dict(zip(problem.resources, problem.capacity[i].tolist(), strict=True)),
            None if problem.node_state[i] == DEAD else use,
            problem.node_state[i],
            cluster_of[node_id],
            started.get(node_id),
        )


def _started_at(inputs: ScalingInputs) -> dict[str, float]:
    """When each node that a published plan added came into use."""
    added = [
        row
        for row in inputs.earlier
        if row.action == scaling.ADD and row.plan_id in inputs.published
    ]
    ordered = sorted(added, key=lambda row: row.decided_at)
    return {row.subject_id: row.decided_at.timestamp() for row in ordered}


def _operator_samples(policy: JobPolicy, inputs: ScalingInputs) -> Iterator[OperatorSample]:
    """Rates and busy time of each operator.

    The rate is that of the period, like the rates of the edges. The time of a record is that of
    the whole series. Both are None for an operator that was not measured.
    """
    rates = _by_operator(inputs.key_groups, "records_per_s")
    records = _by_operator(inputs.series, "records_per_s")
    busy = _by_operator(inputs.series, "busy_load_cores")
    for operator in policy.operators:
        rate, seen = rates.get(operator.id), records.get(operator.id)
        spent = busy.get(operator.id)
        per_record = spent / seen if spent is not None and seen else None
        idle = 0.0 if rate == 0 else None
        yield OperatorSample(
            operator.id,
            rate,
            idle if rate is None or per_record is None else rate * per_record,
            operator.key_groups,
        )


def _by_operator(rows: pa.Table, column: str) -> dict[str, float]:
    sums = rows.group_by("operator_id").aggregate([(column, "sum")])
    values = sums[f"{column}_sum"].to_pylist()
    return dict(zip(sums["operator_id"].to_pylist(), values, strict=True))


def _edges(policy: JobPolicy, traffic: pa.Table) -> Iterator[Edge]:
    rates: dict[tuple[str, str], float] = {}
    columns = (traffic[n].to_pylist() for n in ("from_operator_id", "to_operator_id",
                                                "records_per_s"))  # fmt: skip
    for source, target, rate in zip(*columns, strict=True):
        rates[source, target] = rates.get((source, target), 0.0) + rate
    for edge in policy.edges:
        yield Edge(edge.source, edge.target, rates.get((edge.source, edge.target), 0.0))


def history_of(policy: JobPolicy, inputs: ScalingInputs) -> ScalingHistory:
    """The earlier rounds. A round whose plan never came into force has figures, but no action."""
    by_plan: dict[tuple[datetime, bool, str], list[EarlierScaling]] = {}
    for row in inputs.earlier:
        if row.subject == scaling.CLUSTER and row.needed is not None:
            is_done = row.plan_id in inputs.published
            by_plan.setdefault((row.period_end_at, is_done, row.plan_id), []).append(row)
    clusters = Clusters.of(policy)
    # If a period has several drafts, the one that came into force counts.
    rounds = {
        at: _round(rows, clusters, at, is_done=is_done)
        for (at, is_done, _), rows in sorted(by_plan.items(), key=lambda item: item[0])
    }
    most = policy.scaling.memory_rounds if policy.scaling else len(rounds)
    return ScalingHistory(tuple(rounds.values())[-most:])


def _round(
    rows: Sequence[EarlierScaling], clusters: Clusters, at: datetime, *, is_done: bool
) -> PastRound:
    actions = {row.action for row in rows} if is_done else set()
    named = {clusters.inner(row.subject_id): row for row in rows}
    return PastRound(
        at.timestamp(),
        ScalingAction.OUT
        if scaling.OUT in actions
        else ScalingAction.IN
        if scaling.IN in actions
        else ScalingAction.HOLD,
        {name: row.needed for name, row in named.items() if row.needed is not None},
        {name: row.utilisation for name, row in named.items() if row.utilisation is not None},
        {name: json.loads(row.loads_json or "{}") for name, row in named.items()},
    )


def drains_of(problem: Problem, inputs: ScalingInputs) -> dict[str, int]:
    """Rounds that each draining node has been draining, by the last plan that came into force.

    A draft that changed nothing counts as a round of the drain. A draft that was rejected, refused
    or lost does not count.
    """
    counting = {*inputs.published, *inputs.unchanged}
    earlier = [row for row in inputs.earlier if row.plan_id in counting]
    rows = [r for r in earlier if r.subject == scaling.NODE and r.action == scaling.DRAIN]
    newest = max((row.period_end_at for row in earlier), default=None)
    counted = {r.subject_id: r.drain_rounds for r in rows if r.period_end_at == newest}
    draining = {problem.node_ids[i] for i in np.flatnonzero(problem.draining)}
    return {
        name: rounds for name, rounds in counted.items() if name in draining and rounds is not None
    }
