"""Decides which hot keys are split over how many key groups, and which are joined again. Pure.

A key is on one node. If its load alone is above the mean load of a node by more than the load
distance may be, no placement is level enough. The power of two choices splits every key over two
nodes ([ICDE17, 2.2]); here a plan splits only such keys, over as few key groups as suffice
(ADR 73).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from solvers.key_routing.split_effect import SplitKeys, problem_after_splits
from solvers.model.key_statistics import KeySplits
from solvers.model.metrics import mean_load
from solvers.model.problem import FloatArray, Problem

FEWEST_PARTS = 2
SHOWN_KEY = 40
TINY = 1e-300


@dataclass(frozen=True, slots=True)
class SplitOptions:
    """What the policy allows.

    Attributes:
        operators: Operators whose keys may be split.
        last_operators: Operators that send nothing; only they can declare a merge function.
        max_parts: The most key groups of a key.
        max_keys: The most keys that are split.
        join_below: A key is joined below this share of the mean load of a node.
        allowed_pct: The load distance that is good enough.
        looks_for_hot_keys: Whether hot keys are looked for at all.
    """

    operators: tuple[str, ...] = ()
    last_operators: tuple[str, ...] = ()
    max_parts: int = 8
    max_keys: int = 8
    join_below: float = 0.5
    allowed_pct: float = 2.0
    looks_for_hot_keys: bool = False


@dataclass(frozen=True, slots=True)
class HotKey:
    """A key whose load alone keeps every placement from being level enough."""

    operator: str
    key: str
    load_pct: float
    """Its share of the load of the whole job."""
    bound_pct: float
    """No placement that keeps the key in one key group has a smaller load distance."""

    @property
    def text(self) -> str:
        """The key, its load and the bound in words."""
        shown = self.key if len(self.key) <= SHOWN_KEY else f"{self.key[:SHOWN_KEY]}..."
        return (
            f"key {shown!r} of {self.operator} alone has {self.load_pct:.1f} % of the load; in one "
            f"key group no placement has a load distance below {self.bound_pct:.1f} %"
        )


@dataclass(frozen=True, slots=True)
class SplitDecision:
    """The splits of the next plan, and why."""

    splits: KeySplits = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    """What becomes of each key that is or should be split."""


def decide_splits(measured: SplitKeys, options: SplitOptions) -> SplitDecision:
    """Decide on the splits of a plan.

    A key is split if its bound is above what the load distance may be. It gets more parts if each
    part alone is above that, and is joined if its load is below ``join_below`` of the mean load of
    a node. In between it stays as it is. Operators without counted keys keep their splits: nothing
    is known of them.

    Args:
        measured: the problem, the counted keys and the splits in force.
        options: what the policy allows.
    """
    if not options.looks_for_hot_keys and not measured.splits:
        return SplitDecision()
    sizes = _KeySizes(measured)
    kept: dict[str, dict[str, tuple[int, ...]]] = {}
    reasons: list[str] = []
    for hot in sorted(sizes.candidates(options), key=lambda hot: -hot.bound_pct):
        n_split = sum(map(len, kept.values()))
        may_split = hot.operator in options.operators and n_split < options.max_keys
        old = measured.splits.get(hot.operator, {}).get(hot.key)
        wanted, reason = _wanted(sizes, hot, old, options) if may_split else (None, "")
        if wanted is not None:
            kept.setdefault(hot.operator, {})[hot.key] = wanted
        reasons.append(reason or _refusal(hot, old, options, is_full=n_split >= options.max_keys))
    return SplitDecision(kept, tuple(reason for reason in reasons if reason))


def split_bound(measured: SplitKeys, splits: KeySplits) -> float | None:
    """A lower bound on the load distance of every placement that splits none of these keys.

    None if no key is split.
    """
    sizes = _KeySizes(measured)
    bounds = [
        unsplit_bound(sizes, measured.load(operator, key))
        for operator, keys in splits.items()
        for key in keys
    ]
    return max(bounds, default=None)


def _wanted(
    sizes: _KeySizes, hot: HotKey, old: tuple[int, ...] | None, options: SplitOptions
) -> tuple[tuple[int, ...] | None, str]:
    """The parts of a key, and the reason; None if it is in one key group."""
    if old is not None and not sizes.is_counted(hot.operator):
        return old, f"key {hot.key!r} of {hot.operator} stays split: no key was counted"
    is_hot = hot.bound_pct > options.allowed_pct
    if old is None and not is_hot:
        return None, ""
    size = sizes.relative(hot.operator, hot.key)
    if old is not None and size < options.join_below:
        return None, (
            f"key {hot.key!r} of {hot.operator} is joined: its load is {100 * size:.0f} % of the "
            f"mean of a node (join_below is {options.join_below:g})"
        )
    if old is not None and size / len(old) <= sizes.limit(options):
        return old, f"key {hot.key!r} of {hot.operator} stays in {len(old)} parts"
    parts = sizes.choose_parts(hot, old or (), options)
    if parts is None:
        return old, f"{hot.text}; {hot.operator} has too few key groups to split it"
    return parts, f"{hot.text}; it is split over {len(parts)} key groups"


def _refusal(
    hot: HotKey, old: tuple[int, ...] | None, options: SplitOptions, *, is_full: bool
) -> str:
    """Why a key is not split although it is hot, and what to do; empty if it is not hot."""
    if hot.operator not in options.operators and old is not None:
        return f"key {hot.key!r} of {hot.operator} is joined: the policy no longer splits its keys"
    if hot.bound_pct <= options.allowed_pct:
        return ""
    if hot.operator in options.operators:
        return f"{hot.text}; splits.max_keys is {options.max_keys}" if is_full else ""
    if hot.operator not in options.last_operators:
        return f"{hot.text}; its operator sends records on, so the key cannot be split"
    return (
        f"{hot.text}; to split it declare merge=StateMerge(function, sample) for the operator in "
        "the job, and name the operator in splits.operators of the policy"
    )


class _KeySizes:
    """Loads of keys relative to the mean load of a node."""

    def __init__(self, measured: SplitKeys) -> None:
        self.measured, self.problem = measured, measured.problem
        problem = self.problem
        self.mean = mean_load(problem)
        self.counts = problem.balanced_mask & (self.mean > 0)
        self.largest: FloatArray = problem.capacity[problem.staying].max(axis=0, initial=0.0)

    def is_counted(self, operator: str) -> bool:
        """Whether any key of the operator was counted."""
        return bool(self.measured.statistics.keys.get(operator))

    def limit(self, options: SplitOptions) -> float:
        """The largest load of a part, relative to the mean load of a node."""
        return 1.0 + options.allowed_pct / 100.0

    def of_load(self, load: FloatArray) -> float:
        """A load on the largest node, relative to the mean, for the worst balanced resource."""
        if not self.counts.any():
            return 0.0
        used = self.counts
        return float((load[used] / self.largest[used] / self.mean[used]).max())

    def relative(self, operator: str, key: str) -> float:
        """The load of a key, relative to the mean load of a node."""
        return self.of_load(self.measured.load(operator, key))

    def candidates(self, options: SplitOptions) -> Iterator[HotKey]:
        """Keys that are split, and keys that may be hot: those with records of most of a node."""
        for operator in sorted({*self.measured.statistics.keys, *self.measured.splits}):
            if operator not in self.measured.keys.groups:
                continue
            counted = self.measured.statistics.keys.get(operator, {})
            split = self.measured.splits.get(operator, {})
            hottest = sorted(counted, key=lambda key: (-counted[key], key))[: options.max_keys + 1]
            for key in sorted({*hottest, *split}):
                yield self._hot_key(operator, key)

    def _hot_key(self, operator: str, key: str) -> HotKey:
        load, total = self.measured.load(operator, key), self.problem.load.sum(axis=0)
        shares = load[self.counts] / total[self.counts]
        return HotKey(
            operator, key, 100.0 * float(shares.max(initial=0.0)), unsplit_bound(self, load)
        )

    def choose_parts(
        self, hot: HotKey, old: tuple[int, ...], options: SplitOptions
    ) -> tuple[int, ...] | None:
        """As few parts as suffice: the nodes have room for them, with all else of a key group.

        If no number of parts suffices, it is the largest that is allowed. None with one key group.
        """
        groups = len(self.measured.keys.groups[hot.operator])
        most = min(options.max_parts, groups)
        if most < FEWEST_PARTS:
            return None
        size, limit = self.relative(hot.operator, hot.key), self.limit(options)
        fewest = max(FEWEST_PARTS, len(old), math.ceil(size / limit))
        for count in range(min(fewest, most), most + 1):
            parts = self._spread(hot, count)
            is_level = self._have_room(hot, count, limit) and self._fullest(hot, parts) <= limit
            if count == most or is_level:
                return parts
        return None

    def _have_room(self, hot: HotKey, count: int, limit: float) -> bool:
        """Whether the nodes that stay have room for this number of parts, alone on them."""
        part = self.measured.load(hot.operator, hot.key)[self.counts] / count
        room = self.problem.capacity[self.problem.staying][:, self.counts]
        fitting = np.floor(limit * room * self.mean[self.counts] / np.maximum(part, TINY))
        return int(fitting.min(axis=1).sum()) >= count

    def _spread(self, hot: HotKey, count: int) -> tuple[int, ...]:
        """The key's own key group, and others with little load on nodes with little load."""
        measured, problem = self.measured, self.problem
        home = measured.home(hot.operator, hot.key)
        alone = problem_after_splits(measured, _joined(measured.splits, hot))
        load = _size(alone, self)
        on_node: FloatArray = np.zeros(problem.n_nodes)
        np.add.at(on_node, problem.current, load)
        part = self.relative(hot.operator, hot.key) / count
        chosen = [home]
        home_node = problem.current[measured.row(hot.operator, home)]
        on_node[home_node] -= part * (count - 1)
        while len(chosen) < count:
            free = [g for g in range(len(measured.keys.groups[hot.operator])) if g not in chosen]
            best = min(
                free, key=lambda g: self._order(measured.row(hot.operator, g), on_node, load)
            )
            chosen.append(best)
            on_node[problem.current[measured.row(hot.operator, best)]] += part
        return tuple(sorted(chosen))

    def _order(self, row: int, on_node: FloatArray, load: FloatArray) -> tuple[bool, float, float]:
        """The order in which key groups get parts: on nodes that stay, with little load."""
        node = self.problem.current[row]
        return not self.problem.staying[node], float(on_node[node]), float(load[row])

    def _fullest(self, hot: HotKey, parts: tuple[int, ...]) -> float:
        """The load of the fullest key group that gets a part, without that of the home's others."""
        splits = _joined(self.measured.splits, hot)
        splits = {**splits, hot.operator: {**splits.get(hot.operator, {}), hot.key: parts}}
        after = problem_after_splits(self.measured, splits)
        home = self.measured.home(hot.operator, hot.key)
        others = [self.measured.row(hot.operator, g) for g in parts if g != home]
        return max((self.of_load(after.load[row]) for row in others), default=0.0)


def unsplit_bound(sizes: _KeySizes, load: FloatArray) -> float:
    """A lower bound on the load distance of placements with this load on one node, in percent."""
    used = sizes.counts
    if not used.any():
        return 0.0
    above = load[used] / sizes.largest[used] / sizes.mean[used] - 1.0
    return max(0.0, 100.0 * float((sizes.problem.weights[used] * above).max()))


def _joined(splits: KeySplits, hot: HotKey) -> KeySplits:
    """The splits without that of a key."""
    rest = {key: groups for key, groups in splits.get(hot.operator, {}).items() if key != hot.key}
    return {**splits, hot.operator: rest}


def _size(problem: Problem, sizes: _KeySizes) -> FloatArray:
    """[key groups]: loads relative to the mean of a node, for the first balanced resource."""
    r = int(np.flatnonzero(sizes.counts)[0]) if sizes.counts.any() else 0
    mean = sizes.mean[r] if sizes.counts.any() else 1.0
    found: FloatArray = problem.load[:, r] / mean
    return found
