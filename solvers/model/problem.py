"""The rebalance problem: frozen, checked on construction, with arrays by index and names.

Follows [ICDE17, 3] (key groups, nodes, load per resource, state migration), with node
capacities, nodes that drain or are dead, pinned key groups and allowed nodes added. With several
resources each has a weight, or, as in section 4.3.1, the bottleneck is balanced, the rest are caps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ballast.contracts.errors import InvalidInput
from solvers.model.noise import LoadNoise
from solvers.model.rules import PlacementRules

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

ALIVE = "alive"
DRAINING = "draining"
DEAD = "dead"
NODE_STATES = (ALIVE, DRAINING, DEAD)
LARGEST_TOTAL = 2.0**63
SMALLEST_WEIGHT, LARGEST_WEIGHT = 1e-6, 1e6
"""With weights outside of this range one resource would hide all others."""


@dataclass(frozen=True, eq=False, slots=True)
class AllowedNodes:
    """Which key groups are restricted to which nodes, as compressed rows.

    A dense mask of a million key groups on ten thousand nodes would take 10 GB, and nearly all of
    its rows would be without a restriction. Row ``k`` is ``nodes[indptr[k]:indptr[k + 1]]``, and
    counts only if ``restricted[k]``.
    """

    indptr: IntArray
    nodes: IntArray
    restricted: BoolArray

    def __post_init__(self) -> None:
        _freeze(self, "indptr", _as_ints("allowed.indptr", self.indptr))
        _freeze(self, "nodes", _as_ints("allowed.nodes", self.nodes))
        _freeze(self, "restricted", np.array(self.restricted, dtype=bool))
        shape_fits = (
            self.indptr.shape == (len(self.restricted) + 1,)
            and self.indptr[0] == 0
            and self.indptr[-1] == len(self.nodes)
            and bool(np.all(np.diff(self.indptr) >= 0))
        )
        if not shape_fits:
            raise InvalidInput("allowed: indptr, nodes and restricted do not fit each other")

    @classmethod
    def from_mask(cls, mask: npt.ArrayLike) -> AllowedNodes:
        """Make the rows from a boolean [G, N] mask; an all-true row is no restriction."""
        dense: BoolArray = np.array(mask, dtype=bool)
        if dense.ndim != 2:
            raise InvalidInput("allowed: a mask needs the shape [key groups, nodes]")
        restricted: BoolArray = np.asarray(~np.all(dense, axis=1))
        rows, nodes = np.nonzero(dense & restricted[:, None])
        counts = np.bincount(rows, minlength=len(dense))
        return cls(np.concatenate(([0], np.cumsum(counts))), nodes, restricted)

    def row(self, key_group: int) -> IntArray:
        """Return the nodes listed for one key group; none for a key group without restriction."""
        return self.nodes[self.indptr[key_group] : self.indptr[key_group + 1]]

    def permits(self, key_groups: IntArray, nodes: IntArray) -> BoolArray:
        """Return, for each pair, whether the key group may be on the node."""
        permitted = ~self.restricted[key_groups]
        restricted_pairs = np.flatnonzero(~permitted)
        # Only the rows of these key groups are read, so the work does not grow with the table.
        starts = self.indptr[key_groups[restricted_pairs]]
        lengths = self.indptr[key_groups[restricted_pairs] + 1] - starts
        owner = np.repeat(np.arange(len(restricted_pairs)), lengths)
        offset = np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        is_match = self.nodes[starts[owner] + offset] == nodes[restricted_pairs][owner]
        permitted[restricted_pairs[owner[is_match]]] = True
        return permitted


@dataclass(frozen=True, eq=False)
class Problem:
    """One rebalance problem. Index ``i`` is a node, ``k`` a key group, ``r`` a resource."""

    node_ids: tuple[str, ...]
    resources: tuple[str, ...]
    capacity: FloatArray  # [N, R], > 0
    node_state: tuple[str, ...]
    key_group_ids: tuple[str, ...]
    operator_ids: tuple[str, ...]
    load: FloatArray  # [G, R], >= 0
    state_bytes: IntArray  # [G]
    current: IntArray  # [G], node index
    rack: tuple[str, ...] = ()
    pinned: BoolArray | None = None  # [G]; None: nothing is pinned
    allowed: AllowedNodes | None = None  # a boolean [G, N] mask is converted
    traffic_from: IntArray | None = None  # [E], key group index
    traffic_to: IntArray | None = None  # [E], key group index
    traffic_rate: FloatArray | None = None  # [E], >= 0
    pause_c0_s: float = 0.0
    pause_s_per_byte: float = 0.0
    weight: FloatArray | None = None  # [R], > 0; None: every resource counts the same
    balanced: BoolArray | None = None  # [R]; False: the resource is a cap; None: all are balanced
    noise: LoadNoise | None = None  # None: only the means of the loads are known
    rules: PlacementRules | None = None  # set by rule_masks.with_rules, with their masks

    def __post_init__(self) -> None:
        self._check_names()
        self._check_resources()
        self._check_nodes()
        self._check_key_groups()
        self._check_allowed()
        self._check_traffic()
        self._check_pause()
        self._check_noise()

    @property
    def n_nodes(self) -> int:
        return len(self.node_ids)

    @property
    def n_key_groups(self) -> int:
        return len(self.key_group_ids)

    @property
    def n_resources(self) -> int:
        return len(self.resources)

    @cached_property
    def staying(self) -> BoolArray:
        """[N]: alive and not draining; only these receive key groups."""
        return self._nodes_in_state(ALIVE)

    @cached_property
    def draining(self) -> BoolArray:
        return self._nodes_in_state(DRAINING)

    @cached_property
    def dead(self) -> BoolArray:
        return self._nodes_in_state(DEAD)

    @cached_property
    def pinned_mask(self) -> BoolArray:
        """[G]: ``pinned``, all False by default."""
        return np.zeros(self.n_key_groups, dtype=bool) if self.pinned is None else self.pinned

    @property
    def weights(self) -> FloatArray:
        """[R]: ``weight``, all 1 by default."""
        return np.ones(self.n_resources) if self.weight is None else self.weight

    @property
    def balanced_mask(self) -> BoolArray:
        """[R]: ``balanced``, all True by default."""
        return np.ones(self.n_resources, dtype=bool) if self.balanced is None else self.balanced

    @cached_property
    def cap_limit(self) -> FloatArray:
        """[N, R]: the largest load of a node: its capacity for a resource that is a cap.

        A node above its cap at the start may keep its load, but not get more. The limit is infinite
        for balanced resources and for nodes that do not stay: no key group moves there.
        """
        limit = np.full((self.n_nodes, self.n_resources), np.inf)
        for r in np.flatnonzero(~self.balanced_mask):
            now = np.bincount(self.current, weights=self.load[:, r], minlength=self.n_nodes)
            limit[:, r] = np.maximum(self.capacity[:, r], now)
        limit[~self.staying] = np.inf
        limit.setflags(write=False)
        return limit

    def permits(self, key_groups: IntArray, nodes: IntArray) -> BoolArray:
        """Return, for each pair, whether the key group may be on the node."""
        if self.allowed is None:
            return np.ones(len(key_groups), dtype=bool)
        return self.allowed.permits(key_groups, nodes)

    def targets_of(self, key_group: int) -> IntArray:
        """Return the nodes that this key group may move to; its own node may be one of them."""
        if self.allowed is not None and self.allowed.restricted[key_group]:
            listed = self.allowed.row(key_group)
            return np.unique(listed[self.staying[listed]])
        return np.flatnonzero(self.staying)

    def _nodes_in_state(self, state: str) -> BoolArray:
        return np.array([s == state for s in self.node_state], dtype=bool)

    def _check_names(self) -> None:
        for field in ("node_ids", "resources", "key_group_ids", "operator_ids", "node_state"):
            _freeze(self, field, tuple(map(str, getattr(self, field))))
        _check_unique("node_ids", self.node_ids)
        _check_unique("resources", self.resources)
        _check_unique("key_group_ids", self.key_group_ids)
        if not self.node_ids:
            raise InvalidInput("node_ids is empty", remedy="give at least one node")
        if not self.resources:
            raise InvalidInput("resources is empty", remedy="give at least one resource")
        _check_length("operator_ids", self.operator_ids, self.n_key_groups, "key group")

    def _check_resources(self) -> None:
        weight = _as_floats("weight", self.weights, (self.n_resources,))
        fits = (weight >= SMALLEST_WEIGHT) & (weight <= LARGEST_WEIGHT)
        allowed = f"{SMALLEST_WEIGHT:g} to {LARGEST_WEIGHT:g}"
        _check_rows("weight", fits, self.resources, weight, allowed)
        _freeze(self, "weight", weight)
        balanced = np.array(self.balanced_mask)
        if balanced.dtype != np.bool_ or balanced.ndim != 1:
            raise InvalidInput("balanced is not a list of true and false")
        _check_length("balanced", balanced, self.n_resources, "resource")
        if not balanced.any():
            raise InvalidInput(
                "every resource is a cap, so there is nothing to balance",
                remedy="balance at least one resource",
            )
        _freeze(self, "balanced", balanced)

    def _check_nodes(self) -> None:
        _check_length("node_state", self.node_state, self.n_nodes, "node")
        _freeze(self, "rack", tuple(map(str, self.rack)) or ("",) * self.n_nodes)
        _check_length("rack", self.rack, self.n_nodes, "node")
        for node_id, state in zip(self.node_ids, self.node_state, strict=True):
            if state not in NODE_STATES:
                raise InvalidInput(
                    f"node_state of {node_id!r} is {state!r}",
                    value=state,
                    allowed=", ".join(NODE_STATES),
                )
        capacity = _as_floats("capacity", self.capacity, (self.n_nodes, self.n_resources))
        _check_rows("capacity", capacity > 0, self.node_ids, capacity, "a number > 0")
        _freeze(self, "capacity", capacity)

    def _check_key_groups(self) -> None:
        groups = self.n_key_groups
        load = _as_floats("load", self.load, (groups, self.n_resources))
        _check_rows("load", load >= 0, self.key_group_ids, load, "a number >= 0")
        with np.errstate(over="ignore"):
            totals_fit = np.isfinite(load.sum()) and np.isfinite(self.capacity.sum())
        if not totals_fit:
            raise InvalidInput("the total load or capacity overflows", remedy="use larger units")
        _freeze(self, "load", load)
        state_bytes = _as_ints("state_bytes", self.state_bytes)
        _check_length("state_bytes", state_bytes, groups, "key group")
        _check_rows("state_bytes", state_bytes >= 0, self.key_group_ids, state_bytes, ">= 0")
        # All sums of bytes have 64 bits; a sum that overflows would fit any budget.
        if float(state_bytes.sum(dtype=np.float64)) >= LARGEST_TOTAL:
            raise InvalidInput(
                "the total of state_bytes does not fit into 64 bits",
                value=int(state_bytes.max()),
                allowed=f"a total below {LARGEST_TOTAL:.0f}",
                remedy="use larger units, for the budget of bytes too",
            )
        _freeze(self, "state_bytes", state_bytes)
        current = _as_ints("current", self.current)
        _check_length("current", current, groups, "key group")
        is_node = (current >= 0) & (current < self.n_nodes)
        _check_rows("current", is_node, self.key_group_ids, current, "an index of node_ids")
        _freeze(self, "current", current)
        if self.pinned is not None:
            _check_length("pinned", self.pinned, groups, "key group")
        _freeze(self, "pinned", np.array(self.pinned_mask, dtype=bool))

    def _check_allowed(self) -> None:
        allowed: Any = self.allowed
        if allowed is None:
            return
        if not isinstance(allowed, AllowedNodes):
            allowed = AllowedNodes.from_mask(allowed)
            _freeze(self, "allowed", allowed)
        _check_length("allowed", allowed.restricted, self.n_key_groups, "key group")
        if len(allowed.nodes) and not (
            allowed.nodes.min() >= 0 and allowed.nodes.max() < self.n_nodes
        ):
            raise InvalidInput("allowed names a node index that does not exist")

    def _check_traffic(self) -> None:
        columns = (self.traffic_from, self.traffic_to, self.traffic_rate)
        given = [column for column in columns if column is not None]
        if not given:
            return
        if len(given) != 3 or len({len(a) for a in given}) != 1:
            raise InvalidInput("traffic_from, traffic_to and traffic_rate need the same length")
        for field in ("traffic_from", "traffic_to"):
            ends = _as_ints(field, getattr(self, field))
            if len(ends) and not (ends.min() >= 0 and ends.max() < self.n_key_groups):
                raise InvalidInput(f"{field} names a key group index that does not exist")
            _freeze(self, field, ends)
        rate = _as_floats("traffic_rate", self.traffic_rate, (len(given[0]),))
        if not bool(np.all(np.isfinite(rate) & (rate >= 0))):
            raise InvalidInput("traffic_rate has a rate that is not a number >= 0")
        with np.errstate(over="ignore"):
            if not np.isfinite(rate.sum()):
                raise InvalidInput("the total of traffic_rate overflows", remedy="use larger units")
        _freeze(self, "traffic_rate", rate)

    def _check_pause(self) -> None:
        for field in ("pause_c0_s", "pause_s_per_byte"):
            value = float(getattr(self, field))
            if not (np.isfinite(value) and value >= 0):
                raise InvalidInput(f"{field} is {value!r}", value=value, allowed="a number >= 0")
            object.__setattr__(self, field, value)
        with np.errstate(over="ignore"):
            every = self.pause_c0_s * self.n_key_groups
            total = every + self.pause_s_per_byte * self.state_bytes.sum(dtype=np.float64)
        if not np.isfinite(total):
            raise InvalidInput(
                "the pause of moving everything overflows",
                value=(self.pause_c0_s, self.pause_s_per_byte),
                remedy="pause_c0_s and pause_s_per_byte are in seconds",
            )

    def _check_noise(self) -> None:
        noise = self.noise
        if noise is None:
            return
        if noise.mean_error.shape != self.load.shape:
            raise InvalidInput(
                "noise needs a row for each key group and a column for each resource"
            )
        if len(noise.node_variance_ratio) != self.n_resources:
            raise InvalidInput("noise.node_variance_ratio needs a value for each resource")
        for values in (noise.traffic_error, noise.traffic_period_sd):
            if values is not None and (
                self.traffic_rate is None or len(values) != len(self.traffic_rate)
            ):
                raise InvalidInput("the noise of the traffic needs a value for each edge")


def _freeze(owner: object, field: str, value: Any) -> None:
    """Set a field of a frozen dataclass; an array (a copy) is made read-only."""
    if isinstance(value, np.ndarray):
        value.setflags(write=False)
    object.__setattr__(owner, field, value)


def _as_floats(field: str, values: Any, shape: tuple[int, ...]) -> FloatArray:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{field} is not an array of numbers") from error
    if array.size == 0 and 0 in shape:
        return array.reshape(shape)
    if array.shape != shape:
        raise InvalidInput(f"{field} has the shape {array.shape}", allowed=f"{shape}")
    return array


def _as_ints(field: str, values: Any) -> IntArray:
    array = np.asarray(values)
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InvalidInput(f"{field} is not a list of whole numbers")
    return np.array(array, dtype=np.int64)


def _check_unique(field: str, names: Sequence[str]) -> None:
    if len(set(names)) == len(names):
        return
    seen: set[str] = set()
    twice = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
    raise InvalidInput(f"{field} names {twice!r} more than once", value=twice)


def _check_length(field: str, values: Any, length: int, of_what: str) -> None:
    if len(values) != length:
        raise InvalidInput(
            f"{field} has {len(values)} values", allowed=f"one per {of_what}, {length}"
        )


def _check_rows(
    field: str, is_good: npt.NDArray[np.bool_], names: Sequence[str], values: Any, allowed: str
) -> None:
    """Raise an error with the first bad row. NaN is bad, because it compares false."""
    good = is_good & np.isfinite(values)
    if good.all():
        return
    row = int(np.argwhere(~good)[0][0])
    value = values[row].tolist()
    raise InvalidInput(f"{field} of {names[row]!r} is {value}", value=value, allowed=allowed)
