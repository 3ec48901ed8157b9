"""A scaling decision as nodes by name: which are added, taken back, or marked for removal."""

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
from solvers.planner.drain import choose_to_drain, levelled
from solvers.scale import HotNode, ScalingAction, ScalingDecision


@dataclass(frozen=True, slots=True)
class Rules:
    """What scaling may do in a round besides what the policy decides."""

    upper: float = 0.85
    """Nodes that stay must be levelled at or below this utilisation after a scale-in."""
    max_drain_rounds: int = 10
    fill_new_nodes: bool = True
    """False where a new node takes time to launch: it is filled once it reports."""
    leaving: frozenset[str] = frozenset()
    """Draining nodes that are not taken back: somebody else wants them gone."""

    def __post_init__(self) -> None:
        if not 0 < self.upper <= 1:
            raise InvalidInput(f"upper is {self.upper}", allowed="above 0, at most 1")
        if self.max_drain_rounds < 1:
            raise InvalidInput(f"max_drain_rounds is {self.max_drain_rounds}", allowed=">= 1")


@dataclass(frozen=True, slots=True)
class NodeChange:
    """Nodes by name that are added, marked for removal, or taken back from it."""

    added: tuple[NodeSpec, ...] = ()
    marked: tuple[str, ...] = ()
    revived: tuple[str, ...] = ()
    net: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def is_any(self) -> bool:
        return bool(self.added or self.marked or self.revived)


def change_of(
    problem: Problem,
    decision: ScalingDecision,
    budget: Budget,
    spares: Sequence[NodeSpec],
    clusters: Mapping[str, str],
    rules: Rules,
) -> NodeChange:
    """The decision as nodes by name: growing first takes draining nodes back, they have state."""
    added: list[NodeSpec] = []
    revived: list[str] = []
    marked: list[str] = []
    notes: list[str] = []
    net: dict[str, int] = {}
    for cluster in decision.after:
        wanted = decision.change(cluster)
        if wanted > 0:
            draining = _draining_in(problem, cluster, clusters)
            back = [name for name in draining if name not in rules.leaving][:wanted]
            free = [s for s in spares if s.cluster == cluster and s.node_id not in problem.node_ids]
            new = free[: wanted - len(back)]
            revived += back
            added += new
            net[cluster] = len(back) + len(new)
            if len(back) + len(new) < wanted:
                missing = wanted - len(back) - len(new)
                notes.append(f"{missing} more nodes are wanted and the job has none to add")
        elif wanted < 0:
            candidates = [n for n in decision.removable if clusters.get(n, "") == cluster]
            names, why = choose_to_drain(
                problem,
                candidates,
                -wanted,
                budget,
                max_rounds=rules.max_drain_rounds,
                upper=rules.upper,
            )
            marked += names
            net[cluster] = -len(names)
            if len(names) < -wanted:
                notes.append(f"{len(names)} of {-wanted} nodes are drained, because {why}")
    return NodeChange(tuple(added), tuple(marked), tuple(revived), net, tuple(notes))


def _draining_in(problem: Problem, cluster: str, clusters: Mapping[str, str]) -> list[str]:
    """Draining nodes of a cluster, those with the most state left first."""
    by_node = np.bincount(
        problem.current, weights=problem.state_bytes.astype(np.float64), minlength=problem.n_nodes
    )
    names = [
        (-by_node[i], problem.node_ids[i])
        for i in np.flatnonzero(problem.draining)
        if clusters.get(problem.node_ids[i], "") == cluster
    ]
    return [name for _, name in sorted(names)]


def carried_out(decision: ScalingDecision, change: NodeChange) -> ScalingDecision:
    """The decision with the numbers that nodes could be found for."""
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
    """The fullest node of a plan, where it is above the boundary; else None."""
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
