"""Converts between the columns of a problem folder and the arrays of the solvers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ballast.contracts.errors import ProblemError

if TYPE_CHECKING:
    from ballast.problems import AllowedColumns, ProblemFolder, TrafficColumns
    from solvers.model.budget import Budget
    from solvers.model.objective import Objective
    from solvers.model.problem import Problem


def to_problem(folder: ProblemFolder) -> tuple[Problem, Budget]:
    """Return the problem and the budget of a folder as the solvers take them."""
    from solvers.model.budget import Budget
    from solvers.model.problem import AllowedNodes, Problem

    nodes, groups, traffic = folder.nodes, folder.key_groups, folder.traffic
    allowed = groups.allowed
    problem = Problem(
        node_ids=tuple(nodes.node_ids.to_pylist()),
        resources=folder.resources,
        capacity=nodes.capacity,
        node_state=tuple(nodes.state.to_pylist()),
        rack=tuple(nodes.rack.to_pylist()),
        key_group_ids=tuple(groups.key_group_ids.to_pylist()),
        operator_ids=tuple(groups.operator_ids.to_pylist()),
        load=groups.load,
        state_bytes=groups.state_bytes,
        current=groups.current,
        pinned=groups.pinned,
        allowed=None
        if allowed is None
        else AllowedNodes(allowed.indptr, allowed.nodes, allowed.restricted),
        traffic_from=None if traffic is None else traffic.from_index,
        traffic_to=None if traffic is None else traffic.to_index,
        traffic_rate=None if traffic is None else traffic.rate,
        pause_c0_s=folder.pause_c0_s,
        pause_s_per_byte=folder.pause_s_per_byte,
        weight=[folder.weights.get(name, 1.0) for name in folder.resources],  # type: ignore[arg-type]
        balanced=[name not in folder.caps for name in folder.resources],  # type: ignore[arg-type]
    )
    limits = folder.budget
    return problem, Budget(limits.moves, limits.bytes, limits.pause_s)


def to_objective(folder: ProblemFolder) -> Objective:
    """Return the objective of a folder."""
    from solvers.model.objective import (
        DEFAULT_MAX_LOAD_DISTANCE,
        Objective,
        TradeWeights,
    )

    trade = folder.trade_weights
    return Objective(
        folder.objective,
        folder.max_load_distance or DEFAULT_MAX_LOAD_DISTANCE,
        weights=None if trade is None else TradeWeights(trade.traffic, trade.load),
    )


def method_params(folder: ProblemFolder) -> dict[str, Any]:
    """Return ``params`` of problem.json: the parameters of each method, by its name.

    Raises:
        ProblemError: ``params`` is not an object of objects.
    """
    params = folder.extra.get("params", {})
    if not isinstance(params, dict) or not all(isinstance(p, dict) for p in params.values()):
        raise ProblemError("problem.json: params is not an object of objects, one per method")
    return params


def to_folder(
    problem: Problem, budget: Budget, objective: Objective | None = None
) -> ProblemFolder:
    """Return a problem as the columns of a folder, which ``write_problem`` can write."""
    import pyarrow as pa

    from ballast.problems import BudgetSpec, KeyGroupColumns, NodeColumns, ProblemFolder

    return ProblemFolder(
        resources=problem.resources,
        nodes=NodeColumns(
            node_ids=pa.array(problem.node_ids, pa.string()),
            capacity=problem.capacity,
            state=pa.array(problem.node_state, pa.string()),
            rack=pa.array(problem.rack, pa.string()),
        ),
        key_groups=KeyGroupColumns(
            key_group_ids=pa.array(problem.key_group_ids, pa.string()),
            operator_ids=pa.array(problem.operator_ids, pa.string()),
            current=problem.current,
            load=problem.load,
            state_bytes=problem.state_bytes,
            pinned=problem.pinned_mask,
            allowed=_allowed(problem),
        ),
        objective="balance" if objective is None else objective.kind,
        **_trade(objective),
        budget=BudgetSpec(budget.moves, budget.bytes, budget.pause_s),
        traffic=_traffic(problem),
        pause_c0_s=problem.pause_c0_s,
        pause_s_per_byte=problem.pause_s_per_byte,
        weights={
            name: float(weight)
            for name, weight in zip(problem.resources, problem.weights, strict=True)
            if weight != 1.0
        },
        caps=tuple(
            name
            for name, is_balanced in zip(problem.resources, problem.balanced_mask, strict=True)
            if not is_balanced
        ),
    )


def _trade(objective: Objective | None) -> dict[str, Any]:
    """Return the fields of the folder that say how a joint plan trades load for traffic."""
    from ballast.problems import TradeSpec

    if objective is None or not objective.is_joint:
        return {}
    if objective.weights is None:
        return {"max_load_distance": objective.max_load_distance}
    return {"trade_weights": TradeSpec(objective.weights.traffic, objective.weights.load)}


def _allowed(problem: Problem) -> AllowedColumns | None:
    from ballast.problems import AllowedColumns

    rows = problem.allowed
    return None if rows is None else AllowedColumns(rows.indptr, rows.nodes, rows.restricted)


def _traffic(problem: Problem) -> TrafficColumns | None:
    from ballast.problems import TrafficColumns

    if problem.traffic_from is None or problem.traffic_to is None or problem.traffic_rate is None:
        return None
    return TrafficColumns(problem.traffic_from, problem.traffic_to, problem.traffic_rate)
