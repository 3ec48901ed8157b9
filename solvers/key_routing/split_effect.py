"""What a change of splits does: loads of keys in parts, and the loads and traffic that result."""

from __future__ import annotations

import dataclasses

import numpy as np

from ballast.contracts.identity import key_group_name
from solvers.key_routing.key_map import KeyMap
from solvers.key_routing.routing_effect import traffic_by_ends
from solvers.model.key_statistics import KeySplits, KeyStatistics, Routing
from solvers.model.problem import FloatArray, Problem


class SplitKeys:
    """The parts of keys and their loads, as the problem was measured."""

    def __init__(
        self, problem: Problem, statistics: KeyStatistics, routing: Routing, splits: KeySplits
    ) -> None:
        self.problem, self.statistics, self.splits = problem, statistics, splits
        self.keys = KeyMap(problem, routing)

    def home(self, operator: str, key: str) -> int:
        """Return the number of the key's own key group."""
        return self.keys.group(operator, key)

    def parts(self, operator: str, key: str) -> tuple[int, ...]:
        """Return the key groups that had records of the key when the problem was measured."""
        return parts_of(self.splits, operator, key, self.home(operator, key))

    def row(self, operator: str, group: int) -> int:
        """Return the row of a key group in the problem."""
        return self.keys.row_of[key_group_name(operator, group)]

    def shares(self, operator: str, key: str) -> dict[int, float]:
        """Return, by row, the key's counted share of the records of each of its key groups.

        Parts get equal numbers of records. Counted rates are never too high, so that the shares
        are not either.
        """
        parts = self.parts(operator, key)
        rate = self.statistics.keys.get(operator, {}).get(key, 0.0) / len(parts)
        found = {}
        for group in parts:
            row = self.row(operator, group)
            total = self.statistics.group_rate.get(self.problem.key_group_ids[row], 0.0)
            found[row] = min(1.0, rate / total) if total > 0 else 0.0
        return found

    def load(self, operator: str, key: str) -> FloatArray:
        """Return [resources]: the load that the key causes in all its parts together."""
        total = np.zeros(self.problem.n_resources)
        for row, share in self.shares(operator, key).items():
            total += share * self.problem.load[row]
        return total


def parts_of(splits: KeySplits, operator: str, key: str, home: int) -> tuple[int, ...]:
    """Return the key groups of a key under these splits; its own one if it is not split."""
    return splits.get(operator, {}).get(key) or (home,)


def changed_keys(before: KeySplits, after: KeySplits) -> list[tuple[str, str]]:
    """Return the operator and key of every key that is split otherwise."""
    changed = {
        (operator, key)
        for operator in {*before, *after}
        for key, _ in before.get(operator, {}).items() ^ after.get(operator, {}).items()
    }
    return sorted(changed)


def problem_after_splits(measured: SplitKeys, after: KeySplits) -> Problem:
    """Return the problem with loads and traffic under the splits ``after``.

    Every part gets the same share of what the key causes; records to the key come from the same
    senders.

    Args:
        measured: the problem, the counted keys and the splits when it was measured.
        after: the splits of the plan.

    Returns:
        The problem; that of ``measured`` itself if no key is split otherwise.
    """
    problem = measured.problem
    keys = changed_keys(measured.splits, after)
    if not keys:
        return problem
    load, rates = problem.load.copy(), traffic_by_ends(problem)
    incoming = dict(rates)
    for operator, key in keys:
        parts = parts_of(after, operator, key, measured.home(operator, key))
        targets = [measured.row(operator, group) for group in parts]
        shares = measured.shares(operator, key)
        whole = measured.load(operator, key)
        for row, share in shares.items():
            load[row] -= share * problem.load[row]
        for row in targets:
            load[row] += whole / len(targets)
        for (source, target), rate in incoming.items():
            if (taken := shares.get(target, 0.0) * rate) > 0:
                rates[source, target] -= taken
                for row in targets:
                    rates[source, row] = rates.get((source, row), 0.0) + taken / len(targets)
    return _with(problem, load, rates)


def _with(problem: Problem, load: FloatArray, rates: dict[tuple[int, int], float]) -> Problem:
    load = np.maximum(load, 0.0)
    if problem.traffic_rate is None:
        return dataclasses.replace(problem, load=load)
    flows = sorted(rates)
    return dataclasses.replace(
        problem,
        load=load,
        traffic_from=np.array([flow[0] for flow in flows], dtype=np.int64),
        traffic_to=np.array([flow[1] for flow in flows], dtype=np.int64),
        traffic_rate=np.array([max(0.0, rates[flow]) for flow in flows], dtype=np.float64),
        noise=None if problem.noise is None else problem.noise.without_traffic(),
    )
