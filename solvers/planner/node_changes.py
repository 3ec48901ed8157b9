"""Choose the nodes that a scaling decision adds, takes back, or marks for removal."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ballast.contracts.errors import InvalidInput
from solvers.model import metrics
from solvers.model.budget import Budget
from solvers.model.node_set import NodeSpec, with_nodes
from solvers.model.problem import Problem
from solvers.model.result import Result
from solvers.planner.drain import DrainLimits, choose_to_drain, levelled
from solvers.scale import HotNode, ScalingAction, ScalingDecision


@dataclass(frozen=True, slots=True)
class NodeChangeRules:
    """Bounds on the nodes that one round may change, beside the scaling policy."""

    upper: float = 0.85
    """After a scale-in it must be possible to level the other nodes at this utilisation."""
    max_drain_rounds: int = 10
    """Rounds within which a draining node must be empty."""
    fill_new_nodes: bool = True
    """False if new nodes take time to launch. The round after their first report fills them."""
    leaving: frozenset[str] = frozenset()
    """Draining nodes that are never taken back, because the policy marks them as draining."""

    def __post_init__(self) -> None:
        if not 0 < self.upper <= 1:
            raise InvalidInput(f"upper is {self.upper}", allowed="above 0, at most 1")
        if self.max_drain_rounds < 1:
            raise InvalidInput(f"max_drain_rounds is {self.max_drain_rounds}", allowed=">= 1")


@dataclass(frozen=True, slots=True)
class NodeChange:
    """Nodes that are added, marked for removal, or taken back from removal."""

    added: tuple[NodeSpec, ...] = ()
    marked: tuple[str, ...] = ()
    revived: tuple[str, ...] = ()
    net: Mapping[str, int] = field(default_factory=dict)
    """Change of the number of nodes of each cluster."""
    notes: tuple[str, ...] = ()

    @property
    def is_any(self) -> bool:
        """Whether any node changes."""
        return bool(self.added or self.marked or self.revived)

    def plus(self, other: NodeChange) -> NodeChange:
        """Both changes together."""
        return NodeChange(
            self.added + other.added,
            self.marked + other.marked,
            self.revived + other.revived,
            {**self.net, **other.net},
            self.notes + other.notes,
        )


@dataclass(frozen=True, slots=True)
class NodePool:
    """Nodes that a job may add, the clusters of its nodes, and the rules for changing them."""

    spares: Sequence[NodeSpec] = ()
    clusters: Mapping[str, str] = field(default_factory=dict)
    rules: NodeChangeRules = field(default_factory=NodeChangeRules)


def change_of(
    problem: Problem, decision: ScalingDecision, budget: Budget, pool: NodePool
) -> NodeChange:
    """Choose the nodes that carry out a scaling decision.

    Args:
        problem: the nodes now, and where key groups are.
        decision: how many nodes each cluster should have.
        budget: what a round of a drain may cost.
        pool: the nodes that may be added, and the rules.

    Returns:
        Nodes to add, to mark for removal and to take back, with a note for each cluster that
        gets fewer changes than the decision wants.
    """
    total = NodeChange()
    for cluster in decision.after:
        wanted = decision.change(cluster)
        if wanted > 0:
            total = total.plus(_growth(problem, cluster, wanted, pool))
        elif wanted < 0:
            candidates = [n for n in decision.removable if pool.clusters.get(n, "") == cluster]
            total = total.plus(
                _shrinkage(problem, cluster, -wanted, candidates, budget, pool.rules)
            )
    return total


def _growth(problem: Problem, cluster: str, wanted: int, pool: NodePool) -> NodeChange:
    """Take draining nodes back first, because they still hold state; then add spare nodes."""
    draining = _draining_in(problem, cluster, pool.clusters)
    back = [name for name in draining if name not in pool.rules.leaving][:wanted]
    free = [s for s in pool.spares if s.cluster == cluster and s.node_id not in problem.node_ids]
    new = free[: wanted - len(back)]
    missing = wanted - len(back) - len(new)
    notes = [f"{missing} more nodes are wanted and the job has none to add"] if missing else []
    net = {cluster: len(back) + len(new)}
    return NodeChange(tuple(new), (), tuple(back), net, tuple(notes))


def _shrinkage(
    problem: Problem,
    cluster: str,
    wanted: int,
    candidates: Sequence[str],
    budget: Budget,
    rules: NodeChangeRules,
) -> NodeChange:
    """Mark the nodes that are cheapest to drain."""
    limits = DrainLimits(budget, rules.max_drain_rounds, rules.upper)
    names, why = choose_to_drain(problem, candidates, wanted, limits)
    is_short = len(names) < wanted
    notes = [f"{len(names)} of {wanted} nodes are drained, because {why}"] if is_short else []
    return NodeChange((), names, (), {cluster: -len(names)}, tuple(notes))


def _draining_in(problem: Problem, cluster: str, clusters: Mapping[str, str]) -> list[str]:
    """Draining nodes of a cluster; nodes with the most state come first."""
    by_node = np.bincount(
        problem.current, weights=problem.state_bytes.astype(np.float64), minlength=problem.n_nodes
    )
    names = [
        (-by_node[i], problem.node_ids[i])
        for i in np.flatnonzero(problem.draining)
        if clusters.get(problem.node_ids[i], "") == cluster
    ]
    return [name for _, name in sorted(names)]


def as_carried_out(decision: ScalingDecision, change: NodeChange) -> ScalingDecision:
    """The decision with the numbers of nodes that the change reaches."""
    if not decision.scales:
        return decision
    after = {c: n + change.net.get(c, 0) for c, n in decision.before.items()}
    grows = any(after[c] > n for c, n in decision.before.items())
    shrinks = any(after[c] < n for c, n in decision.before.items())
    action = ScalingAction.OUT if grows else ScalingAction.IN if shrinks else ScalingAction.HOLD
    return dataclasses.replace(decision, action=action, after=after)


def hot_node(
    problem: Problem, plan: Result, upper: float, clusters: Mapping[str, str]
) -> HotNode | None:
    """The fullest node of a plan if it is above the boundary; else None."""
    loads = metrics.node_loads(problem, plan.assignment)
    loads[~problem.staying] = -1.0
    i, r = np.unravel_index(int(np.argmax(loads)), loads.shape)
    if loads[i, r] <= upper:
        return None
    staying = problem.capacity[problem.staying]
    share = (problem.load / staying.max(axis=0)).max(axis=1)
    k = int(np.argmax(share))
    reached = min(levelled(problem), float(loads[i, r]))
    spare = NodeSpec(_free_name(problem), tuple(staying.mean(axis=0).tolist()))
    return HotNode(
        node_id=problem.node_ids[i],
        resource=problem.resources[r],
        utilisation=float(loads[i, r]),
        levelled=reached,
        with_one_more=min(reached, levelled(with_nodes(problem, [spare]))),
        largest=float(share[k]),
        largest_key_group=problem.key_group_ids[k],
        largest_operator=problem.operator_ids[k],
        cluster=clusters.get(problem.node_ids[i], ""),
    )


def _free_name(problem: Problem) -> str:
    return max(problem.node_ids, key=len) + "+"
