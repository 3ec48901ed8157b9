"""The target as it is kept from round to round: by name, because indices change between rounds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

import numpy as np

from solvers.collocate.cluster_packing import NOWHERE, ClusterTarget
from solvers.model.problem import Problem

STALLED_AFTER = 2
"""Rounds without more traffic saved, after which the target is given up for a new one."""
PROGRESS = 1e-6
"""Of the whole traffic: less than this more is no progress."""
STALE_SHARE = 0.1
"""Share of the target's key groups that may be gone before it is made anew."""


@dataclass(frozen=True, slots=True)
class TargetMemory:
    """``node_of``: key group id to node id; ``cluster_of``: key group id to its cluster."""

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
        """The target in this problem's indices; None if nodes or key groups of it are gone."""
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

    def after(self, saved: float, total_rate: float) -> TargetMemory:
        """A round later: older, and stalled if it did not save more than the best so far."""
        is_better = saved > self.best_saved + PROGRESS * total_rate
        return replace(
            self,
            age=self.age + 1,
            stalled=0 if is_better else self.stalled + 1,
            best_saved=max(saved, self.best_saved),
        )
