"""The target between rounds, by name, because indices change between rounds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

import numpy as np

from solvers.collocate.cluster_packing import NOWHERE, ClusterTarget
from solvers.model.problem import IntArray, Problem

STALLED_AFTER = 2
"""Rounds without more saved traffic after which a new target replaces this one."""
PROGRESS = 1e-6
"""Share of all traffic that a round must save more to count as progress."""
STALE_SHARE = 0.1
"""Share of the target's key groups that may be gone before a new target is made."""


@dataclass(frozen=True, slots=True)
class TargetMemory:
    """A target, and how well it serves.

    Attributes:
        node_of: Key group id to node id.
        cluster_of: Key group id to cluster.
        excess: By how much the worst node breaks the bound, as a share of the mean.
        age: Rounds since the target was made or confirmed.
        proposals: Targets made so far; the seed of the next one depends on it.
        stalled: Rounds in a row without progress.
        best_saved: Most traffic that a round saved.
    """

    node_of: Mapping[str, str]
    cluster_of: Mapping[str, int]
    excess: float = 0.0
    age: int = 0
    proposals: int = 1
    stalled: int = 0
    best_saved: float = -1.0

    @classmethod
    def of(
        cls, problem: Problem, target: ClusterTarget, proposals: int, before: TargetMemory | None
    ) -> TargetMemory:
        """Return a new target by name; the most saved traffic of ``before`` stays."""
        placed = np.flatnonzero(target.node_of != NOWHERE).tolist()
        ids = problem.key_group_ids
        return cls(
            {ids[k]: problem.node_ids[int(target.node_of[k])] for k in placed},
            {ids[k]: int(target.cluster_of[k]) for k in placed if target.cluster_of[k] >= 0},
            excess=target.excess,
            proposals=proposals,
            best_saved=-1.0 if before is None else before.best_saved,
        )

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> TargetMemory:
        return cls(**json.loads(text))

    @property
    def is_stalled(self) -> bool:
        return self.stalled >= STALLED_AFTER

    def resolve(self, problem: Problem) -> ClusterTarget | None:
        """Return the target in the indices of a problem.

        Returns:
            The target; None if a node or too many key groups of it are gone.
        """
        index = {name: i for i, name in enumerate(problem.node_ids) if problem.staying[i]}
        node_of = np.full(problem.n_key_groups, NOWHERE, dtype=np.int64)
        cluster_of = np.full(problem.n_key_groups, -1, dtype=np.int64)
        for k, name in enumerate(problem.key_group_ids):
            wanted = self.node_of.get(name)
            if wanted is None:
                continue
            if wanted not in index:
                return None
            node_of[k] = index[wanted]
            cluster_of[k] = self.cluster_of.get(name, -1)
        known = int(np.count_nonzero(node_of != NOWHERE))
        if known < (1.0 - STALE_SHARE) * len(self.node_of):
            return None
        return ClusterTarget(node_of, cluster_of, self.excess)

    def moved(self, problem: Problem, before: IntArray, after: IntArray) -> TargetMemory:
        """Return the memory with the nodes of key groups that moved on from ``before``.

        Whole clusters that were together move on to level the load, and should not be moved back.
        """
        node_of = dict(self.node_of)
        for k in np.flatnonzero(before != after).tolist():
            name = problem.key_group_ids[k]
            if name in node_of:
                node_of[name] = problem.node_ids[int(after[k])]
        return replace(self, node_of=node_of)

    def after(self, saved: float, total_rate: float) -> TargetMemory:
        """Return the memory after a round that saved this much traffic."""
        is_better = saved > self.best_saved + PROGRESS * total_rate
        return replace(
            self,
            age=self.age + 1,
            stalled=0 if is_better else self.stalled + 1,
            best_saved=max(saved, self.best_saved),
        )
