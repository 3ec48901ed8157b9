"""A simulated cluster: the node of each key group, the load of each node, the cost of a move.

State is moved as [ICDE17, 3] describes (direct state migration): a key group is paused while its
state is serialised, sent and deserialised, which takes c0 + alpha x bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from solvers.model.budget import Budget
from solvers.model.problem import BoolArray, FloatArray, IntArray, Problem

ALIVE = "alive"
DRAINING = "draining"


@dataclass(frozen=True)
class Migration:
    """The cost of a plan's moves: key groups moved, bytes copied, seconds of pause."""

    moves: int
    bytes: int
    pause_s: float


@dataclass(frozen=True)
class PauseModel:
    """Seconds for which one key group is paused while it is moved."""

    c0_s: float = 0.0
    s_per_byte: float = 0.0

    def of(self, state_bytes: IntArray) -> FloatArray:
        return np.asarray(self.c0_s + self.s_per_byte * state_bytes, dtype=np.float64)


class SimulatedCluster:
    """Nodes of equal capacity 1 that hold key groups; loads are shares of a node."""

    def __init__(
        self,
        current: IntArray,
        nodes: int,
        *,
        draining: Sequence[int] = (),
        operators: Sequence[str] | None = None,
        pause: PauseModel | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        self.current = np.array(current, dtype=np.int64)
        self.nodes = nodes
        self.is_draining: BoolArray = np.isin(np.arange(nodes), list(draining))
        self.operators = tuple(operators or ("op",) * len(self.current))
        self.pause = pause or PauseModel()
        self._names = tuple(names or (f"node-{i:03d}" for i in range(nodes)))

    def node_ids(self) -> tuple[str, ...]:
        return self._names

    def problem(self, load: FloatArray, state_bytes: IntArray) -> Problem:
        """Return the problem of a period with these loads."""
        groups = len(self.current)
        return Problem(
            node_ids=self.node_ids(),
            resources=("cpu",),
            capacity=np.ones((self.nodes, 1)),
            node_state=tuple(DRAINING if d else ALIVE for d in self.is_draining),
            key_group_ids=tuple(f"kg-{k:05d}" for k in range(groups)),
            operator_ids=self.operators,
            load=load[:, None],
            state_bytes=state_bytes,
            current=self.current,
            pause_c0_s=self.pause.c0_s,
            pause_s_per_byte=self.pause.s_per_byte,
        )

    def node_loads(self, load: FloatArray) -> FloatArray:
        """[N]: the load of each node."""
        sums = np.bincount(self.current, weights=load, minlength=self.nodes)
        return np.asarray(sums, dtype=np.float64)

    def load_distance_points(self, load: FloatArray) -> float:
        """100 x the largest |load - mean| over the nodes that stay, in points of load."""
        staying = ~self.is_draining
        mean = load.sum() / staying.sum()
        return 100.0 * float(np.abs(self.node_loads(load)[staying] - mean).max())

    def draining_groups(self) -> int:
        """Key groups that still have to leave draining nodes."""
        return int(self.is_draining[self.current].sum())

    def follow(self, assignment: IntArray, state_bytes: IntArray) -> Migration:
        """Move the state; return the cost."""
        if bool(self.is_draining[assignment[assignment != self.current]].any()):
            raise ValueError("a plan moves a key group into a draining node")
        moved = assignment != self.current
        self.current = np.array(assignment, dtype=np.int64)
        pauses = self.pause.of(state_bytes[moved])
        return Migration(int(moved.sum()), int(state_bytes[moved].sum()), float(pauses.sum()))


Balancer = Callable[[Problem, Budget], IntArray]
"""Takes a problem and a budget; returns an assignment."""
