"""A round: the problem of a snapshot, and everything that its plan is verified against. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from statistics import median

import pyarrow as pa
import pyarrow.compute as pc

from ballast.contracts.identity import is_routable
from ballast.contracts.policy import JobPolicy
from ballast.contracts.records import (
    ConnectionWindow,
    Outcome,
    ScalingRow,
    Snapshot,
    SnapshotNoise,
    WorkerWeight,
)
from ballast.contracts.scaling import DRAIN, DRAINING, KEEP, SPARE
from ballast.store.snapshots import key_group_names, noise_reason
from solvers.key_routing.decayed_statistics import CANDIDATES
from solvers.key_routing.routed_plan import RoutingOptions
from solvers.model.amortisation import AmortisationGate
from solvers.model.key_statistics import EarlierPeriod, Ends, KeyStatistics, RoutedEdge, Routing
from solvers.model.objective import Objective, objective_of_policy
from solvers.model.problem import Problem
from solvers.model.traffic_costs import TrafficCosts
from solvers.noise.calibration import PastOutcome
from solvers.planner.plan import KeyRouting
from solvers.verify.routes import RouteRules
from solvers.verify.scaling import ScalingRules, Spare
from spark_jobs.draft.calibration import Calibration, calibrate
from spark_jobs.draft.content import Route, routing_of
from spark_jobs.draft.past_outcomes import PastPlans, past_outcomes
from spark_jobs.draft.problem import build_problem
from spark_jobs.draft.region_weights import RegionStatistics, regions_of
from spark_jobs.draft.scaling_inputs import capacity_of
from spark_jobs.draft.wire_traffic import Wire, serialise_us, wire_of


@dataclass(frozen=True)
class Round:
    """Everything that a plan is made from and verified against."""

    snapshot: Snapshot
    policy: JobPolicy
    problem: Problem
    objective: Objective
    wire: Wire
    calibration: Calibration
    statistics: KeyStatistics = field(default_factory=KeyStatistics)
    routing: Routing = field(default_factory=dict)
    """Routes in force when the snapshot was taken."""
    scaling_in_force: Sequence[ScalingRow] = ()
    """Rows of plans.scaling of the plan in force when the snapshot was taken."""
    connections: Sequence[ConnectionWindow] = ()
    weights_in_force: Sequence[WorkerWeight] = ()
    """Weights of the head when the snapshot was taken. Regions follow the head by themselves."""
    noise_reason: str = ""
    """Why the noise of the loads is not known; empty if the problem has it."""
    past_outcomes: Mapping[str, Sequence[PastOutcome]] = field(default_factory=dict)
    """How the promises of earlier versions came out, by figure."""
    records_per_s: float = 0.0
    """Records of all key groups in the snapshot."""

    @property
    def keys(self) -> KeyRouting:
        """Statistics of keys, the routes in force, and which keys plans may route."""
        return KeyRouting(self.statistics, self.routing, self.routing_options)

    @property
    def unchanged_node_actions(self) -> dict[str, str]:
        """Node actions if nothing changes."""
        states = dict(zip(self.problem.node_ids, self.problem.node_state, strict=True))
        return {
            node.id: SPARE
            if node.id not in states
            else DRAIN
            if states[node.id] == DRAINING
            else KEEP
            for node in self.policy.nodes
        }

    @property
    def regions(self) -> list[RegionStatistics]:
        """The ordered regions of the policy, with what was measured of them."""
        policy = self.policy
        return regions_of(policy.regions, policy.window_s, self.connections, self.weights_in_force)

    @property
    def is_scaled(self) -> bool:
        """Whether plans decide on nodes: the policy has scaling, or the plan in force decided.

        Nodes that a plan added hold state even after scaling was removed from the policy.
        """
        return self.policy.scaling is not None or bool(self.scaling_in_force)

    @property
    def is_first(self) -> bool:
        """Whether the plan is the job's first and the policy has a budget for first plans."""
        first = self.policy.budgets.first_plan
        return first is not None and self.snapshot.head_version == 0

    @property
    def scaling_rules(self) -> ScalingRules:
        """What the policy allows a plan to do with nodes, for the verifier."""
        policy, scaling = self.policy, self.policy.scaling
        return ScalingRules(
            spares={
                node.id: Spare(capacity_of(node, self.problem.resources), node.rack)
                for node in policy.nodes
                if node.id not in self.problem.node_ids and not node.draining
            },
            clusters={node.id: node.cluster for node in policy.nodes},
            draining=frozenset(node.id for node in policy.nodes if node.draining),
            min_nodes=scaling.min_nodes if scaling else 1,
            max_nodes=(scaling.max_nodes if scaling else None) or len(policy.nodes),
            key_groups={operator.id: operator.key_groups for operator in policy.operators},
        )

    @property
    def route_rules(self) -> RouteRules:
        """What the policy allows a plan to do with keys, for the verifier."""
        options = self.routing_options
        return RouteRules(
            {operator.id: operator.key_groups for operator in self.policy.operators},
            options.edges,
            options.max_routes,
            options.imbalance,
            CANDIDATES,
        )

    @property
    def routing_options(self) -> RoutingOptions:
        """Which keys the policy allows plans to route, and how many."""
        routing = self.policy.routing
        edges = tuple(
            RoutedEdge(self.policy.followers(edge.source), self.policy.followers(edge.target))
            for edge in routing.edges
        )
        return RoutingOptions(edges, routing.max_routes, routing.max_imbalance)


@dataclass(frozen=True)
class RememberedKeyPairs:
    """Key pairs of an earlier snapshot."""

    period_end_at: datetime
    key_pairs: pa.Table


@dataclass(frozen=True, kw_only=True)
class RoundInputs:
    """The rows that a round is made from, as they were read."""

    snapshot: Snapshot
    policy: JobPolicy
    key_groups: pa.Table
    nodes: pa.Table
    traffic: pa.Table
    outcomes: Sequence[Outcome] = ()
    key_pairs: pa.Table | None = None
    """None if the policy routes no keys."""
    routes: Sequence[Route] = ()
    """Routes in force when the snapshot was taken."""
    scaling_in_force: Sequence[ScalingRow] = ()
    connections: Sequence[ConnectionWindow] = ()
    weights_in_force: Sequence[WorkerWeight] = ()
    remembered: Sequence[RememberedKeyPairs] = ()
    """Key pairs of earlier periods, oldest first."""
    noise: Sequence[SnapshotNoise] = ()
    past: PastPlans = field(default_factory=PastPlans)


def round_of(inputs: RoundInputs) -> Round:
    """Make a round from the rows that were read.

    Outcomes count only if they were measured before the snapshot was taken. Solving, verifying
    and publishing the same snapshot at different times therefore use the same costs.
    """
    snapshot, policy = inputs.snapshot, inputs.policy
    known = [row for row in inputs.outcomes if row.measured_at <= snapshot.created_at]
    wire = wire_of(inputs.traffic)
    calibration = calibrate(policy, known, serialise_us(inputs.key_groups, inputs.traffic))
    return Round(
        snapshot,
        policy,
        build_problem(policy, inputs.key_groups, inputs.nodes, inputs.traffic, inputs.noise),
        objective_of(policy, calibration, wire.bytes_per_record),
        wire,
        calibration,
        _statistics(inputs),
        routing_of(inputs.routes),
        inputs.scaling_in_force,
        inputs.connections,
        inputs.weights_in_force,
        noise_reason(policy, inputs.key_groups, inputs.noise),
        past_outcomes(inputs.past, snapshot.created_at),
        float(pc.sum(inputs.key_groups["records_per_s"]).as_py() or 0.0),
    )


def _statistics(inputs: RoundInputs) -> KeyStatistics:
    """Statistics of keys of this period and of earlier ones."""
    if inputs.key_pairs is None:
        return KeyStatistics()
    earlier = earlier_periods(inputs.remembered, inputs.snapshot.period_end_at)
    return replace(key_statistics(inputs.key_groups, inputs.key_pairs), earlier=earlier)


def earlier_periods(
    remembered: Sequence[RememberedKeyPairs], now: datetime
) -> tuple[EarlierPeriod, ...]:
    """Statistics of earlier periods, with their age in rounds.

    The length of a round is the median distance of the periods. A round that was skipped therefore
    still counts in the age of earlier periods.
    """
    if not remembered:
        return ()
    ends = [*(each.period_end_at for each in remembered), now]
    round_s = median((later - end).total_seconds() for end, later in pairwise(ends))
    return tuple(
        EarlierPeriod(
            (now - each.period_end_at).total_seconds() / round_s,
            key_statistics(None, each.key_pairs),
        )
        for each in remembered
    )


def key_statistics(key_groups: pa.Table | None, key_pairs: pa.Table) -> KeyStatistics:
    """Rates of keys, pairs and key groups, from the snapshot's rows.

    Counted rates are never too high, so a key never takes more load with it than it has. The error
    bounds of the counts are used for bytes. Keys that may not have a route are left out: a
    collector may count them, but no job would accept the plan.
    """
    keys: dict[str, dict[str, float]] = {}
    errors: dict[str, dict[str, float]] = {}
    pairs: dict[Ends, dict[tuple[str, str], float]] = {}
    pair_errors: dict[Ends, dict[tuple[str, str], float]] = {}
    missed: dict[str | Ends, float] = {}
    totals: dict[str, float] = {}
    names = (
        "kind", "from_operator_id", "from_key", "to_operator_id", "to_key", "records_per_s",
        "error_records_per_s",
    )  # fmt: skip
    columns = (key_pairs[name].to_pylist() for name in names)
    for kind, from_operator, from_key, to_operator, to_key, rate, error in zip(
        *columns, strict=True
    ):
        if kind in ("key", "other_keys"):
            totals[from_operator] = totals.get(from_operator, 0.0) + rate
        if not all(is_routable(key) for key in (from_key, to_key) if key is not None):
            continue
        if kind == "key":
            keys.setdefault(from_operator, {})[from_key] = rate
            errors.setdefault(from_operator, {})[from_key] = error
        elif kind == "pair":
            ends = (from_operator, to_operator)
            pairs.setdefault(ends, {})[from_key, to_key] = rate
            pair_errors.setdefault(ends, {})[from_key, to_key] = error
        elif kind == "other_keys":
            missed[from_operator] = error
        elif kind == "other_pairs":
            missed[from_operator, to_operator] = error
    rates = {} if key_groups is None else _group_rates(key_groups)
    return KeyStatistics(keys, pairs, rates, errors, pair_errors, missed, totals)


def _group_rates(key_groups: pa.Table) -> dict[str, float]:
    names = key_group_names(key_groups["operator_id"], key_groups["key_group"]).to_pylist()
    return dict(zip(names, key_groups["records_per_s"].to_pylist(), strict=True))


def objective_of(policy: JobPolicy, calibration: Calibration, bytes_per_record: float) -> Objective:
    """The objective of the job's plans, with calibrated costs."""
    objective = policy.objective
    prices = policy.traffic
    # A record between nodes costs CPU and network bytes at both ends.
    send = {"cpu": calibration.send_cpu_s, "network": bytes_per_record}
    receive = {"cpu": calibration.receive_cpu_s, "network": bytes_per_record}
    return objective_of_policy(
        objective,
        TrafficCosts(
            send=tuple(send.get(name, 0.0) for name in objective.resources),
            receive=tuple(receive.get(name, 0.0) for name in objective.resources),
            within_rack=prices.within_rack_price,
            between_racks=prices.between_racks_price,
        ),
        AmortisationGate(
            policy.gate.records_per_byte,
            policy.gate.records_per_pause_s,
            life=calibration.life_s,
            trust=calibration.trust,
        ),
    )
