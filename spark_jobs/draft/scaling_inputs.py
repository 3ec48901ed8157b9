"""From a snapshot and earlier plans to a scaling decision. Pure.

What earlier rounds decided comes from plans.scaling and plans.log alone, up to the moment the
snapshot was taken: whoever solves it again finds the same history.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ballast.contracts import scaling as words
from ballast.contracts.errors import InvalidInput
from ballast.contracts.policy import JobPolicy, NodePolicy, ScalingPolicy
from ballast.store.snapshots import RESOURCES, key_group_names
from solvers.model.node_set import NodeSpec
from solvers.model.problem import DEAD, FloatArray, Problem
from solvers.model.result import Result
from solvers.planner.node_changes import NodeChangeRules
from solvers.planner.round import DecideScaling, scaling_by_policy
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
from spark_jobs.draft.problem import Row

CAPACITY_FIELDS = {"cpu": "cpu_cores", "memory": "memory_bytes", "network": "network_bytes_per_s"}


@dataclass(frozen=True)
class Looked:
    """What scaling looks at beside the problem."""

    series: pa.Table
    """Rows of snapshots.load_series."""
    sources: pa.Table
    """Rows of snapshots.sources."""
    key_groups: pa.Table
    """Rows of snapshots.key_groups."""
    traffic: pa.Table
    """Rows of snapshots.traffic."""
    earlier: Sequence[Row] = ()
    """Rows of plans.scaling of drafts before the snapshot, as far back as scaling remembers."""
    published: Collection[str] = field(default_factory=frozenset)
    """Plans that came into force before the snapshot."""
    unchanged: Collection[str] = field(default_factory=frozenset)
    """Drafts that left everything as it was in force; there was nothing to publish."""


@dataclass(frozen=True)
class Clusters:
    """Names of clusters as decisions have them: a job of one cluster need not name it."""

    of_node: Mapping[str, str]

    @classmethod
    def of(cls, policy: JobPolicy) -> Clusters:
        return cls({node.id: node.cluster for node in policy.nodes})

    @property
    def only(self) -> str | None:
        """The one cluster; None where there are several."""
        names = set(self.of_node.values())
        return names.pop() if len(names) == 1 else None

    def inner(self, name: str) -> str:
        """A cluster's name in decisions."""
        return "" if self.only is not None else name

    def outer(self, name: str) -> str:
        """A cluster's name in tables."""
        return self.only if name == "" and self.only is not None else name

    def by_node(self) -> dict[str, str]:
        """Each node's cluster as decisions name it."""
        return {node: self.inner(name) for node, name in self.of_node.items()}


def scaling_of(policy: JobPolicy, problem: Problem, looked: Looked, at: datetime) -> DecideScaling:
    """How the round decides on the number of nodes."""
    if policy.scaling is None:
        off = "the nodes stay, because the policy has no scaling section"
        return lambda *_: _held(off, "a scaling section in the policy")
    series, step_s = series_of(problem, looked.series)
    observation = observation_of(policy, problem, looked, series, step_s, at)
    history = history_of(policy, looked)
    decide = scaling_by_policy(observation, decision_policy(policy, problem), history, series)

    def careful(problem: Problem, potential: Result, hot: HotNode | None) -> ScalingDecision:
        """What cannot be decided on is no reason to leave the load as it is."""
        try:
            return decide(problem, potential, hot)
        except InvalidInput as error:
            return _held(f"no scaling, because {error}", "what the reason says to do")

    return careful


def _held(reason: str, would_change: str) -> ScalingDecision:
    """The nodes stay as they are."""
    return ScalingDecision(
        ScalingAction.HOLD, {}, {}, reason=reason, binding="policy", would_change=would_change
    )


def rules_of(policy: JobPolicy) -> NodeChangeRules:
    """What scaling may do in a round besides what is decided."""
    leaving = frozenset(node.id for node in policy.nodes if node.draining)
    if policy.scaling is None:
        return NodeChangeRules(leaving=leaving)
    upper, rounds = policy.scaling.boundaries.upper, policy.scaling.max_drain_rounds
    return NodeChangeRules(upper, rounds, leaving=leaving)


def spares_of(policy: JobPolicy, problem: Problem) -> list[NodeSpec]:
    """Nodes of the policy that are not in use: never used so far, or removed by a plan."""
    cluster_of = Clusters.of(policy).by_node()
    return [
        NodeSpec(node.id, capacity_of(node, problem.resources), node.rack, cluster_of[node.id])
        for node in policy.nodes
        if node.id not in problem.node_ids and not node.draining
    ]


def capacity_of(node: NodePolicy, resources: Sequence[str]) -> tuple[float, ...]:
    """A node's capacity in the order of the resources; the policy has checked that it has one."""
    return tuple(float(getattr(node.capacity, CAPACITY_FIELDS[name])) for name in resources)


def decision_policy(policy: JobPolicy, problem: Problem) -> Policy:
    """The scaling section as ``solvers.scale`` takes it."""
    given = policy.scaling or ScalingPolicy()
    spare = next(iter(spares_of(policy, problem)), None)
    new = dict(zip(problem.resources, spare.capacity, strict=True)) if spare else {}
    same = (
        "method", "resource", "min_nodes", "interval_s", "launch_s", "shutdown_s", "billing_s",
        "cool_down_s", "stabilisation_rounds", "min_benefit", "max_step_out", "max_step_in",
        "min_coverage", "max_full_windows", "catch_up_s", "restart_s", "backlog_threshold_s",
        "busy_per_node", "season_s", "horizon_s", "memory_rounds",
    )  # fmt: skip
    return Policy(
        **{name: getattr(given, name) for name in same},
        boundaries=Boundaries(**given.boundaries.model_dump()),
        limits={name: Boundaries(**of.model_dump()) for name, of in given.limits.items()},
        max_nodes=given.max_nodes or len(policy.nodes),
        new_node_capacity=new,
    )


def series_of(problem: Problem, rows: pa.Table) -> tuple[FloatArray, float]:
    """[key groups, resources, steps], and the mean length of a step in seconds.

    A key group without a series fell silent on a dead node: its last known load is taken as flat.
    """
    steps = pc.unique(rows["step"]).sort().to_pylist()
    if not steps:
        return problem.load[:, :, None], 1.0
    series = np.repeat(problem.load[:, :, None], len(steps), axis=2)
    names = key_group_names(rows["operator_id"], rows["key_group"])
    group = pc.index_in(names, value_set=pa.array(problem.key_group_ids)).to_numpy()
    step = pc.index_in(rows["step"], value_set=pa.array(steps)).to_numpy()
    for r, resource in enumerate(problem.resources):
        series[group, r, step] = rows[RESOURCES[resource].load].to_numpy()
    by_step = rows.group_by("step").aggregate([("step_s", "max")])
    return series, float(pc.mean(by_step["step_s_max"]).as_py())


def observation_of(
    policy: JobPolicy,
    problem: Problem,
    looked: Looked,
    series: FloatArray,
    step_s: float,
    at: datetime,
) -> Observation:
    """The statistics period as scaling sees it."""
    return Observation(
        at_s=at.timestamp(),
        window_s=step_s,
        nodes=tuple(_node_samples(policy, problem, looked, series)),
        sources=tuple(
            SourceSample(row["source_id"], row["operator_id"], row["arrival_records_per_s"],
                         row["backlog_records"])
            for row in looked.sources.to_pylist()
        ),
        operators=tuple(_operator_samples(policy, looked)),
        edges=tuple(_edges(policy, looked.traffic)),
        expected_sources=policy.entry_operators,
    )  # fmt: skip


def _node_samples(
    policy: JobPolicy, problem: Problem, looked: Looked, series: FloatArray
) -> Iterator[NodeSample]:
    by_node = np.zeros((problem.n_nodes, *series.shape[1:]))
    np.add.at(by_node, problem.current, series)
    cluster_of, started = Clusters.of(policy).by_node(), _started_at(looked)
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


def _started_at(looked: Looked) -> dict[str, float]:
    """When each node that a plan added came into use, as far as that is known."""
    added = [
        row
        for row in looked.earlier
        if row["action"] == words.ADD and row["plan_id"] in looked.published
    ]
    ordered = sorted(added, key=lambda row: row["decided_at"])
    return {row["subject_id"]: row["decided_at"].timestamp() for row in ordered}


def _operator_samples(policy: JobPolicy, looked: Looked) -> Iterator[OperatorSample]:
    """Rates of the period, as those of the edges; what a record takes is that of the whole series.

    An operator of which nothing is known has neither.
    """
    rates = _by_operator(looked.key_groups, "records_per_s")
    records = _by_operator(looked.series, "records_per_s")
    busy = _by_operator(looked.series, "busy_load_cores")
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


def history_of(policy: JobPolicy, looked: Looked) -> ScalingHistory:
    """The rounds so far. One whose plan never came into force saw what it saw, but did nothing."""
    by_plan: dict[tuple[datetime, bool, str], list[Row]] = {}
    for row in looked.earlier:
        if row["subject"] == words.CLUSTER and row["needed"] is not None:
            is_done = row["plan_id"] in looked.published
            by_plan.setdefault((row["period_end_at"], is_done, row["plan_id"]), []).append(row)
    clusters = Clusters.of(policy)
    # Of several drafts of one period the one that came into force counts.
    rounds = {
        at: _round(rows, clusters, at, is_done=is_done)
        for (at, is_done, _), rows in sorted(by_plan.items(), key=lambda item: item[0])
    }
    most = policy.scaling.memory_rounds if policy.scaling else len(rounds)
    return ScalingHistory(tuple(rounds.values())[-most:])


def _round(rows: Sequence[Row], clusters: Clusters, at: datetime, *, is_done: bool) -> PastRound:
    actions = {row["action"] for row in rows} if is_done else set()
    named = {clusters.inner(row["subject_id"]): row for row in rows}
    return PastRound(
        at.timestamp(),
        ScalingAction.OUT
        if words.OUT in actions
        else ScalingAction.IN
        if words.IN in actions
        else ScalingAction.HOLD,
        {name: row["needed"] for name, row in named.items()},
        {name: row["utilisation"] for name, row in named.items()},
        {name: json.loads(row["loads_json"] or "{}") for name, row in named.items()},
    )


def drains_of(problem: Problem, looked: Looked) -> dict[str, int]:
    """Rounds that each draining node has been draining, by the last plan that came into force.

    A draft that leaves everything as it is in force is a round of the drain as well; one that was
    rejected, refused or lost is none.
    """
    counting = {*looked.published, *looked.unchanged}
    earlier = [row for row in looked.earlier if row["plan_id"] in counting]
    rows = [r for r in earlier if r["subject"] == words.NODE and r["action"] == words.DRAIN]
    newest = max((row["period_end_at"] for row in earlier), default=None)
    counted = {r["subject_id"]: r["drain_rounds"] for r in rows if r["period_end_at"] == newest}
    draining = {problem.node_ids[i] for i in np.flatnonzero(problem.draining)}
    return {name: rounds for name, rounds in counted.items() if name in draining}
