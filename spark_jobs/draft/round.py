"""A round: the problem of a snapshot, and everything that its plan is verified against. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from ballast.contracts.identity import Split
from ballast.contracts.policy import JobPolicy, SplitsPolicy
from ballast.contracts.problem_columns import noise_columns, noise_reason, problem_columns
from ballast.contracts.records import (
    ConnectionWindow,
    Outcome,
    ScalingRow,
    Snapshot,
    SnapshotNoise,
    WorkerWeight,
)
from ballast.contracts.scaling import DRAIN, DRAINING, KEEP, SPARE
from solvers.key_routing.decayed_statistics import CANDIDATES
from solvers.key_routing.key_splits import SplitOptions
from solvers.key_routing.routed_plan import RoutingOptions
from solvers.model.amortisation import AmortisationGate
from solvers.model.key_statistics import KeyStatistics, RoutedEdge, Routing
from solvers.model.objective import Objective, objective_of_policy
from solvers.model.problem import Problem
from solvers.model.rule_masks import with_rules
from solvers.model.rules import rules_of_policy
from solvers.model.traffic_costs import TrafficCosts
from solvers.noise.calibration import PastOutcome
from solvers.noise.load_noise import noise_of_snapshot
from solvers.planner.plan import KeyRouting
from solvers.verify.routes import RouteRules
from solvers.verify.scaling import ScalingRules, Spare
from solvers.verify.splits import SplitRules
from spark_jobs.draft.calibration import Calibration, calibrate
from spark_jobs.draft.content import Route, routing_of, splits_of
from spark_jobs.draft.key_statistics import RememberedKeyPairs, earlier_periods, key_statistics
from spark_jobs.draft.operator_sizes import has_sizes, sizes_in_force
from spark_jobs.draft.past_outcomes import PastPlans, past_outcomes
from spark_jobs.draft.region_weights import RegionStatistics, regions_of
from spark_jobs.draft.scaling_inputs import capacity_of
from spark_jobs.draft.unmeasured_operators import unmeasured_operators
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
    """Outcomes of the promises of earlier versions, by figure."""
    records_per_s: float = 0.0
    """Records of all key groups in the snapshot."""
    unmeasured_operators: Mapping[str, str] = field(default_factory=dict)
    """Operators that had load in too few windows, and in how many."""
    splits: Sequence[Split] = ()
    """Rows of plans.splits in force when the snapshot was taken."""

    @property
    def keys(self) -> KeyRouting:
        """Statistics of keys, routes and splits in force, and which keys plans may change."""
        return KeyRouting(
            self.statistics,
            self.routing,
            self.routing_options,
            splits_of(self.splits),
            self.split_options,
        )

    @property
    def split_options(self) -> SplitOptions:
        """Which keys the policy allows plans to split."""
        found, policy = self.policy.splits or SplitsPolicy(), self.policy
        senders = {edge.source for edge in policy.edges}
        is_joint = self.objective.is_joint
        return SplitOptions(
            operators=found.operators,
            last_operators=tuple(o.id for o in policy.operators if o.id not in senders),
            max_parts=found.max_parts,
            max_keys=found.max_keys,
            join_below=found.join_below,
            allowed_pct=policy.objective.max_load_distance_pct
            if is_joint
            else policy.thresholds.good_enough_pct,
            looks_for_hot_keys=policy.splits is not None,
        )

    @property
    def split_rules(self) -> SplitRules:
        """What the policy allows a plan to do with hot keys, for the verifier."""
        found = self.policy.splits or SplitsPolicy()
        sizes = {operator.id: operator.key_groups for operator in self.policy.operators}
        return SplitRules(sizes, found.operators, found.max_parts, found.max_keys)

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
    def first_placement(self) -> str | None:
        """The placement from scratch that this plan tries first; None for a later plan."""
        return self.policy.solver.first_placement if self.snapshot.head_version == 0 else None

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
            sizes=sizes_in_force(policy, self.scaling_in_force) if has_sizes(policy) else None,
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
        return RoutingOptions(edges, routing.max_routes, routing.max_imbalance, routing.method)


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
    splits: Sequence[Split] = ()
    """Splits in force when the snapshot was taken."""
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
        unmeasured_operators(inputs.key_groups),
        inputs.splits,
    )


def build_problem(
    policy: JobPolicy,
    key_groups: pa.Table,
    nodes: pa.Table,
    traffic: pa.Table,
    noise: Sequence[SnapshotNoise] = (),
) -> Problem:
    """The problem that a snapshot's rows state. The order of the rows does not matter.

    Without rows of ``noise`` nothing is known of the loads but their means.
    """
    columns = problem_columns(policy, key_groups, nodes, traffic)
    stored = noise_columns(policy, key_groups, traffic, noise)
    problem = Problem(**vars(columns), noise=noise_of_snapshot(columns.resources, stored))
    return with_rules(problem, rules_of_policy(policy))


def _statistics(inputs: RoundInputs) -> KeyStatistics:
    """Statistics of keys of this period and of earlier ones."""
    if inputs.key_pairs is None:
        return KeyStatistics()
    earlier = earlier_periods(inputs.remembered, inputs.snapshot.period_end_at)
    return replace(key_statistics(inputs.key_groups, inputs.key_pairs), earlier=earlier)


def objective_of(policy: JobPolicy, calibration: Calibration, bytes_per_record: float) -> Objective:
    """The objective of the job's plans, with calibrated costs."""
    objective = policy.objective
    prices = policy.traffic
    # A record between nodes costs CPU and network bytes at both ends.
    send = {"cpu": calibration.send_cpu_s, "network": bytes_per_record}
    receive = {"cpu": calibration.receive_cpu_s, "network": bytes_per_record}
    found = objective_of_policy(
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
            lifetime=calibration.lifetime_s,
            trust=calibration.trust,
        ),
    )
    return replace(found, levelling_limit=policy.thresholds.good_enough_pct)
