"""Checks the splits of a plan and what they promise; shares no code with any solver.

It recomputes the load of each key, the loads and traffic with other parts, and the load distance
that no placement without the splits could go below, on whole columns.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ballast.contracts.identity import hashed_key_group, split_key_group_name
from solvers.verify.violation import Violation

if TYPE_CHECKING:
    from solvers.model.key_statistics import KeyStatistics
    from solvers.model.problem import Problem

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Parts = Mapping[tuple[str, str], tuple[int, ...]]
"""Operator and key, to the numbers of its key groups."""
SPLITS = "splits"


@dataclass(frozen=True)
class SplitRules:
    """Limits of the policy on splits."""

    key_groups: Mapping[str, int]
    """Number of key groups of each operator."""
    operators: tuple[str, ...] = ()
    max_parts: int = 8
    max_keys: int = 8


def parts_by_key(rows: Sequence[tuple[str, str, int]]) -> Parts:
    """The parts of each split key in the rows of plans.splits, in order."""
    found: dict[tuple[str, str], tuple[int, ...]] = {}
    for operator, key, group in sorted(rows):
        found[operator, key] = (*found.get((operator, key), ()), group)
    return found


def split_violations(
    rules: SplitRules,
    routes: Mapping[str, Mapping[str, int]],
    before: Parts,
    rows: Sequence[tuple[str, str, int]],
) -> Iterator[Violation]:
    """Check that each split key has different key groups of its operator, its own one among them.

    Splits in force may stay when the policy no longer allows them, but none may be added.

    Args:
        rules: limits of the policy.
        routes: the routes of the plan, which give keys their own key groups.
        before: the splits in force.
        rows: the rows of the plan.
    """
    after = parts_by_key(rows)
    for row, count in Counter(rows).items():
        if count > 1:
            yield Violation(SPLITS, f"key {row[1]!r} of {row[0]!r} has key group {row[2]} twice")
    for (operator, key), groups in after.items():
        size, old = rules.key_groups.get(operator, 0), before.get((operator, key), ())
        name = f"key {key!r} of {operator!r}"
        if not all(0 <= group < size for group in groups):
            yield Violation(SPLITS, f"{name} is split over {groups}, of {size} key groups")
            continue
        home = routes.get(operator, {}).get(key, -1)
        home = hashed_key_group(key, size) if home < 0 else home
        if len(groups) < 2 or home not in groups:
            yield Violation(SPLITS, f"{name} is split over {groups}, its own key group is {home}")
        if groups != old and operator not in rules.operators:
            yield Violation(SPLITS, f"{name} is split, and the policy does not split its keys")
        if len(groups) > max(rules.max_parts, len(old)):
            yield Violation(SPLITS, f"{name} has {len(groups)} parts, allowed {rules.max_parts}")
    if len(after) > max(rules.max_keys, len(before)):
        yield Violation(SPLITS, f"{len(after)} keys are split, allowed {rules.max_keys}")


class SplitFacts:
    """Loads and traffic under a plan's splits, recomputed from the rows."""

    def __init__(
        self,
        problem: Problem,
        statistics: KeyStatistics,
        routes: Mapping[str, Mapping[str, int]],
        splits: tuple[Parts, Parts],
    ) -> None:
        self.problem, self.statistics, self.routes = problem, statistics, routes
        self.before, self.after = splits
        names = [split_key_group_name(name) for name in problem.key_group_ids]
        self._rows = {name: row for row, name in enumerate(names)}
        self._size = Counter(operator for operator, _ in names)

    @property
    def is_change(self) -> bool:
        """Whether the plan splits keys otherwise than the plan in force."""
        return dict(self.before) != dict(self.after)

    @cached_property
    def figures(self) -> dict[str, float | int | None]:
        """Number of split keys, and the load distance that without splits no plan goes below."""
        if not self.after:
            return {"split_keys": 0, "unsplit_bound_pct": None}
        bounds = [self._bound(operator, key) for operator, key in self.after]
        return {"split_keys": len(self.after), "unsplit_bound_pct": max(0.0, *bounds)}

    def _bound(self, operator: str, key: str) -> float:
        """The load distance if the whole key is on the largest node that stays."""
        problem = self.problem
        share = self._share(operator, key)
        whole = (share[:, None] * problem.load).sum(axis=0)
        stays = np.flatnonzero(np.array(problem.node_state) == "alive")
        bounds = [0.0]
        for r in range(len(problem.resources)):
            room = problem.capacity[stays, r]
            mean = float(problem.load[:, r].sum()) / float(room.sum()) if len(stays) else 0.0
            if mean > 0 and (problem.balanced is None or problem.balanced[r]):
                weight = 1.0 if problem.weight is None else float(problem.weight[r])
                distance = (float(whole[r]) / float(room.max()) - mean) / mean
                bounds.append(100.0 * weight * distance)
        return max(bounds)

    def _groups(self, splits: Parts, operator: str, key: str) -> Ints:
        """The rows of the key groups of a key under some splits."""
        numbers = splits.get((operator, key))
        if numbers is None:
            home = self.routes.get(operator, {}).get(key, -1)
            numbers = (hashed_key_group(key, self._size[operator]) if home < 0 else home,)
        return np.array([self._rows[operator, number] for number in numbers], dtype=np.int64)

    def _share(self, operator: str, key: str) -> Floats:
        """[key groups]: the key's share of the records of each key group in the period."""
        share = np.zeros(len(self.problem.key_group_ids))
        rows = self._groups(self.before, operator, key)
        rate = self.statistics.keys.get(operator, {}).get(key, 0.0) / len(rows)
        for row in rows.tolist():
            total = self.statistics.group_rate.get(self.problem.key_group_ids[row], 0.0)
            share[row] = 0.0 if total <= 0 else min(rate, total) / total
        return share

    def problem_after(self) -> Problem:
        """Return the problem with loads and traffic under the splits."""
        changed = [
            name
            for name in {**self.before, **self.after}
            if self.before.get(name) != self.after.get(name)
        ]
        if not changed:
            return self.problem
        load = np.array(self.problem.load, dtype=np.float64)
        shift: list[tuple[Floats, Floats]] = []
        for name in sorted(changed):
            share = self._share(*name)
            rows = self._groups(self.after, *name)
            spread = np.zeros(len(load))
            spread[rows] = 1.0 / len(rows)
            load += np.outer(spread, share @ self.problem.load) - share[:, None] * self.problem.load
            shift.append((share, spread))
        return self._with_traffic(np.maximum(0.0, load), shift)

    def _with_traffic(self, load: Floats, shift: Sequence[tuple[Floats, Floats]]) -> Problem:
        problem = self.problem
        if problem.traffic_rate is None:
            return dataclasses.replace(problem, load=load)
        source, target = np.asarray(problem.traffic_from), np.asarray(problem.traffic_to)
        rate = np.asarray(problem.traffic_rate)
        ends: list[tuple[Ints, Ints, Floats]] = [(source, target, rate)]
        for share, spread in shift:
            taken = share[target] * rate
            flows = np.flatnonzero(taken > 0)
            ends.append((source[flows], target[flows], -taken[flows]))
            for row in np.flatnonzero(spread).tolist():
                to = np.full(len(flows), row)
                ends.append((source[flows], to, taken[flows] * spread[row]))
        size = len(load)
        codes = np.concatenate([one * size + other for one, other, _ in ends])
        flow, inverse = np.unique(codes, return_inverse=True)
        rates = np.bincount(inverse, weights=np.concatenate([part for _, _, part in ends]))
        return dataclasses.replace(
            problem,
            load=load,
            traffic_from=flow // size,
            traffic_to=flow % size,
            traffic_rate=np.maximum(0.0, rates),
            noise=None if problem.noise is None else problem.noise.without_traffic(),
        )

    def violations(self, nodes: Sequence[str]) -> Iterator[Violation]:
        """Check that new parts are on nodes that stay; ``nodes`` has the node of each key group."""
        state = dict(zip(self.problem.node_ids, self.problem.node_state, strict=True))
        for operator, key in self.after:
            old = set(self._groups(self.before, operator, key).tolist())
            for row in self._groups(self.after, operator, key).tolist():
                if row not in old and state[nodes[row]] != "alive":
                    text = f"key {key!r} of {operator!r} gets a part on {nodes[row]!r}, which is "
                    yield Violation("splits.nodes", text + state[nodes[row]])
