"""A round as solve and publish see it: the snapshot's problem, and what the plan is for. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from statistics import median

import pyarrow as pa

from ballast.contracts.identity import is_routable
from ballast.contracts.policy import JobPolicy
from ballast.store.snapshots import key_group_names
from solvers.key_routing.decayed_statistics import CANDIDATES
from solvers.key_routing.routed_plan import RoutingOptions
from solvers.model.amortisation import AmortisationGate
from solvers.model.key_statistics import EarlierPeriod, Ends, KeyStatistics, RoutedEdge, Routing
from solvers.model.objective import Objective, objective_of_policy
from solvers.model.problem import Problem
from solvers.model.traffic_costs import TrafficCosts
from solvers.verify.routes import RouteRules
from solvers.verify.scaling import ScalingRules, Spare
from spark_jobs.draft.calibration import Learned, learn
from spark_jobs.draft.problem import Row, build_problem
from spark_jobs.draft.region_weights import RegionGiven, regions_of
from spark_jobs.draft.scaling_inputs import capacity_of
from spark_jobs.draft.wire_traffic import Wire, serialise_us, wire_of

Route = tuple[str, str, int]
"""Operator, key, key group."""


@dataclass(frozen=True)
class Round:
    """Everything that a plan is made from, and judged by."""

    snapshot: Row
    policy: JobPolicy
    problem: Problem
    objective: Objective
    wire: Wire
    learned: Learned
    statistics: KeyStatistics = field(default_factory=KeyStatistics)
    routing: Routing = field(default_factory=dict)
    """Routes in force when the snapshot was taken."""
    in_force: Sequence[Row] = ()
    """Rows of plans.scaling of the plan in force then."""
    connections: Sequence[Row] = ()
    """Rows of snapshots.connections."""
    weights_in_force: Sequence[Row] = ()
    """Rows of plans.weights of the head then, which regions follow by themselves."""

    @property
    def regions(self) -> list[RegionGiven]:
        """The ordered regions of the policy, with what is known of them."""
        policy = self.policy
        return regions_of(policy.regions, policy.window_s, self.connections, self.weights_in_force)

    @property
    def is_scaled(self) -> bool:
        """Whether a plan says what becomes of nodes: the policy wants it, or a plan has done so.

        Nodes that a plan added hold state, also after scaling was taken out of the policy.
        """
        return self.policy.scaling is not None or bool(self.in_force)

    @property
    def is_first(self) -> bool:
        """Whether the plan is the job's first, and the policy has a budget for that."""
        first = self.policy.budgets.first_plan
        return first is not None and self.snapshot["head_version"] == 0

    @property
    def scaling_rules(self) -> ScalingRules:
        """What the policy lets a plan do with nodes, for the verifier."""
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
        """What the policy lets a plan do with keys, for the verifier."""
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
        """Which keys the policy lets plans route, and how many."""
        given = self.policy.routing
        edges = tuple(
            RoutedEdge(self.policy.followers(edge.source), self.policy.followers(edge.target))
            for edge in given.edges
        )
        return RoutingOptions(edges, given.max_routes, given.max_imbalance)


def round_of(
    snapshot: Row,
    policy: JobPolicy,
    key_groups: pa.Table,
    nodes: pa.Table,
    traffic: pa.Table,
    outcomes: Sequence[Row],
    key_pairs: pa.Table | None = None,
    routes: Sequence[Route] = (),
    in_force: Sequence[Row] = (),
    connections: Sequence[Row] = (),
    weights: Sequence[Row] = (),
    remembered: Sequence[tuple[datetime, pa.Table]] = (),
) -> Round:
    """The round of a snapshot's rows, with the routes that were in force.

    ``remembered`` are key pairs of earlier periods with their ends, oldest first.

    Outcomes count that were there when the snapshot was taken: whoever comes to the same snapshot
    later, to verify or to publish, then reckons with the same costs.
    """
    known = [row for row in outcomes if row["measured_at"] <= snapshot["created_at"]]
    wire, learned = wire_of(traffic), learn(policy, known, serialise_us(key_groups, traffic))
    return Round(
        snapshot,
        policy,
        build_problem(policy, key_groups, nodes, traffic),
        objective_of(policy, learned, wire.bytes_per_record),
        wire,
        learned,
        KeyStatistics()
        if key_pairs is None
        else replace(
            key_statistics(key_groups, key_pairs),
            earlier=earlier_periods(remembered, snapshot["period_end_at"]),
        ),
        routing_of(routes),
        in_force,
        connections,
        weights,
    )


def routing_of(routes: Sequence[Route]) -> Routing:
    """Rows of (operator, key, key group) by operator and key."""
    routing: dict[str, dict[str, int]] = {}
    for operator, key, group in routes:
        routing.setdefault(operator, {})[key] = group
    return routing


def earlier_periods(
    remembered: Sequence[tuple[datetime, pa.Table]], now: datetime
) -> tuple[EarlierPeriod, ...]:
    """Statistics of earlier periods by how long ago they ended, in rounds.

    A round is as long as rounds mostly lay apart, so that one that was left out is none that
    statistics did not fade in.
    """
    if not remembered:
        return ()
    ends = [*(end for end, _ in remembered), now]
    round_s = median((later - end).total_seconds() for end, later in pairwise(ends))
    return tuple(
        EarlierPeriod((now - end).total_seconds() / round_s, key_statistics(None, rows))
        for end, rows in remembered
    )


def key_statistics(key_groups: pa.Table | None, key_pairs: pa.Table) -> KeyStatistics:
    """Rates of keys, pairs and key groups, from the snapshot's rows.

    Rates that were counted are never too high, so a key never takes along more load than it has;
    what may have been missed counts where it is a matter of bytes. Keys
    that may have no route are left out: a collector may count them, but no job would take the plan.
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


def objective_of(policy: JobPolicy, learned: Learned, bytes_per_record: float) -> Objective:
    """What plans of this job are for, with what outcomes have taught."""
    aim = policy.objective
    prices = policy.traffic
    # One record more between nodes: CPU at both ends, its bytes on both ends' network.
    send = {"cpu": learned.send_cpu_s, "network": bytes_per_record}
    receive = {"cpu": learned.receive_cpu_s, "network": bytes_per_record}
    return objective_of_policy(
        aim,
        TrafficCosts(
            send=tuple(send.get(name, 0.0) for name in aim.resources),
            receive=tuple(receive.get(name, 0.0) for name in aim.resources),
            within_rack=prices.within_rack_price,
            between_racks=prices.between_racks_price,
        ),
        AmortisationGate(
            policy.gate.records_per_byte,
            policy.gate.records_per_pause_s,
            life=learned.life_s,
            trust=learned.trust,
        ),
    )
