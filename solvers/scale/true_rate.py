"""True processing rates with backlog, through the topology: DS2, and Flink's autoscaler.

DS2 (Kalavri et al., OSDI'18): an operator's true rate is its records per second of *useful* time.
So one period is enough to size every operator, even if it was starved or blocked. Target rates
start at the sources and follow the ratio of records out to records in of each edge. Flink's
autoscaler adds the costs of a restart and of a backlog:

    target = backlog / catch_up + rate x restart / catch_up + rate / target_utilisation

The upper boundary (without restart) decides on growing, the lower one on shrinking, and nothing
shrinks while a backlog is worked off. Here all operators share the nodes, so their needs add up to
nodes; the parallelism of each operator is computed as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from ballast.contracts.errors import InvalidInput
from solvers.scale.decision import Need, ScalingHistory
from solvers.scale.observation import Observation, OperatorSample
from solvers.scale.policy import Policy
from solvers.scale.sizing import ROUNDING, ClusterView, cluster_views, loads_of, nodes_for

NAME = "true_rate"


@dataclass(frozen=True, slots=True)
class Demand:
    """Work of one operator: records per second that arrive, and that reduce its backlog.

    ``busy_per_record`` is the inverse of the true rate of one lane (DS2, 3.1).
    """

    operator_id: str
    rate: float
    catch_up: float
    busy_per_record: float
    max_parallelism: int | None

    @property
    def steady(self) -> float:
        """Busy seconds per second for arriving records."""
        return self.rate * self.busy_per_record

    @property
    def backlog(self) -> float:
        """Busy seconds per second to work off the backlog in time."""
        return self.catch_up * self.busy_per_record


def missing(observation: Observation) -> tuple[str, ...]:
    """Names of operators without a true rate, and of missing sources."""
    silent = [f"operator {o.operator_id}" for o in observation.operators if not o.is_measured]
    silent += [
        f"busy time of operator {o.operator_id}"
        for o in observation.operators
        if o.is_measured and o.records_rate and not o.busy
    ]
    known = {o.operator_id for o in observation.operators}
    named = {e.from_id for e in observation.edges} | {e.to_id for e in observation.edges}
    named |= {s.operator_id for s in observation.sources}
    silent += [f"operator {name}" for name in sorted(named - known)]
    if not observation.sources:
        silent.append("every source")
    return tuple(dict.fromkeys(silent))


def needs(observation: Observation, policy: Policy, history: ScalingHistory) -> tuple[Need, ...]:  # noqa: ARG001
    """One need for the whole job, because all operators share the nodes."""
    views = cluster_views(observation, policy)
    if len(views) > 1:
        raise InvalidInput(
            f"true_rate sizes one cluster, the job has {len(views)}",
            remedy="use thresholds for several clusters, or give the job one cluster",
        )
    demands = demands_of(observation, policy)
    lanes = _lanes(views[0], policy)
    boundaries = policy.boundaries
    steady = sum(d.steady for d in demands)
    catch_up = sum(d.backlog for d in demands)
    restart = steady * policy.restart_s / policy.catch_up_s
    required = catch_up + restart + steady / boundaries.target
    is_behind = lag_s(observation) > policy.backlog_threshold_s
    heaviest = max(demands, key=lambda d: d.steady + d.backlog)
    return (
        Need(
            cluster=views[0].name,
            nodes=nodes_for(required, lanes, sum(lanes) / len(lanes)),
            utilisation=_utilisation(steady, catch_up, sum(lanes)),
            boundaries=boundaries,
            metric=f"busy time, most of it by operator {heaviest.operator_id}",
            may_shrink=not is_behind,
            note=_note(demands, is_behind=is_behind, policy=policy),
            load=loads_of(views[0]),
            parallelism=_parallelism(demands, policy),
        ),
    )


def demands_of(observation: Observation, policy: Policy) -> tuple[Demand, ...]:
    """Target and catch-up rate of every operator, sources first (Flink: TARGET_DATA_RATE)."""
    operators = {o.operator_id: o for o in observation.operators}
    rate = dict.fromkeys(operators, 0.0)
    catch_up = dict.fromkeys(operators, 0.0)
    for source in observation.sources:
        rate[source.operator_id] += source.arrival_rate or 0.0
        catch_up[source.operator_id] += (source.backlog or 0.0) / policy.catch_up_s
    for name in _in_topology_order(observation):
        for edge in observation.edges:
            if edge.from_id == name:
                ratio = _ratio(edge.rate, operators[name].records_rate)
                rate[edge.to_id] += rate[name] * ratio
                catch_up[edge.to_id] += catch_up[name] * ratio
    return tuple(
        Demand(name, rate[name], catch_up[name], _busy_per_record(o), o.max_parallelism)
        for name, o in operators.items()
    )


def _in_topology_order(observation: Observation) -> tuple[str, ...]:
    before: dict[str, set[str]] = {o.operator_id: set() for o in observation.operators}
    for edge in observation.edges:
        before[edge.to_id].add(edge.from_id)
    try:
        return tuple(TopologicalSorter(before).static_order())
    except CycleError as error:
        raise InvalidInput(
            f"the topology has a cycle: {' -> '.join(map(str, error.args[1]))}"
        ) from error


def _ratio(out_rate: float, in_rate: float | None) -> float:
    """Records out per record in; 0 if nothing came in."""
    return out_rate / in_rate if in_rate else 0.0


def _busy_per_record(operator: OperatorSample) -> float:
    """Busy seconds per record; 0 if nothing came in, so that it counts as fast (as in Flink)."""
    rate, busy = operator.records_rate or 0.0, operator.busy or 0.0
    return busy / rate if rate > 0 else 0.0


def _lanes(view: ClusterView, policy: Policy) -> list[float]:
    """Busy seconds per second that each node offers, in proportion to its capacity."""
    capacities = view.capacities(policy.resource)
    mean = sum(capacities) / len(capacities)
    return [policy.busy_per_node * capacity / mean for capacity in capacities]


def _utilisation(steady: float, catch_up: float, lanes: float) -> float:
    """Exceeds the upper boundary exactly if catch_up + steady / upper exceeds the lanes."""
    left = lanes - catch_up
    if left <= 0:
        return math.inf
    return steady / left


def lag_s(observation: Observation) -> float:
    """Backlog in seconds of arrivals, at the source with the largest."""
    return max(
        (
            (s.backlog or 0.0) / s.arrival_rate if s.arrival_rate else math.inf
            for s in observation.sources
            if s.backlog
        ),
        default=0.0,
    )


def _parallelism(demands: tuple[Demand, ...], policy: Policy) -> Mapping[str, int]:
    sizes = {}
    for d in demands:
        lanes = (
            d.backlog
            + d.steady * policy.restart_s / policy.catch_up_s
            + d.steady / policy.boundaries.target
        )
        wanted = max(1, math.ceil(lanes * (1 - ROUNDING)))
        sizes[d.operator_id] = min(wanted, d.max_parallelism or wanted)
    return sizes


def _note(demands: tuple[Demand, ...], *, is_behind: bool, policy: Policy) -> str:
    notes = ["a backlog is being worked off, so nothing shrinks"] if is_behind else []
    notes += [
        f"operator {d.operator_id} needs {d.steady:.1f} lanes and has only "
        f"{d.max_parallelism} key groups: split it into more"
        for d in demands
        if d.max_parallelism is not None and d.steady > d.max_parallelism * policy.boundaries.upper
    ]
    return "; ".join(notes)
