"""The share that a key has of its key group's records, load and state."""

from __future__ import annotations

from functools import cached_property

from solvers.key_routing.key_map import KeyMap
from solvers.model.key_statistics import KeyStatistics
from solvers.model.problem import FloatArray


class KeyShares:
    """Estimates a key's share of its key group from counted records."""

    def __init__(self, statistics: KeyStatistics, keys: KeyMap) -> None:
        self.statistics, self.keys = statistics, keys

    def of(self, operator: str, key: str) -> float:
        """Return the key's counted share of its key group's records, 0 if it was not counted."""
        total = self._total(operator, key)
        rate = self.statistics.keys.get(operator, {}).get(key, 0.0)
        return min(1.0, rate / total) if total > 0 else 0.0

    def load(self, operator: str, key: str) -> FloatArray:
        """Return [resources]: the part of the key group's load that the key causes."""
        problem = self.keys.problem
        taken: FloatArray = self.of(operator, key) * problem.load[self.keys.row(operator, key)]
        return taken

    def state_bytes(self, operator: str, key: str) -> float:
        """Return an upper bound of the key's state in bytes."""
        row = self.keys.row(operator, key)
        return self._upper_share(operator, key) * float(self.keys.problem.state_bytes[row])

    def _upper_share(self, operator: str, key: str) -> float:
        """Return an upper bound of the key's share; its pairs are a lower bound of its rate."""
        rate = self.statistics.keys.get(operator, {}).get(key)
        if rate is None:
            rate = self._last_known(operator, key)
        else:
            rate += self.statistics.errors.get(operator, {}).get(key, 0.0)
        rate = max(rate, self._pair_rates.get((operator, key), 0.0))
        total = self._total(operator, key)
        if rate <= 0:
            return 0.0
        return min(1.0, rate / total) if total > 0 else 1.0

    def _last_known(self, operator: str, key: str) -> float:
        """Return the rate of a key that this period did not count.

        A key without records keeps its state, so its share of the operator in the last period
        that counted it applies. A key that was never counted has at most the rate that the
        summary may have missed.
        """
        for period in reversed(self.statistics.earlier):
            then = period.counted
            if key in then.keys.get(operator, {}):
                rate = then.keys[operator][key] + then.errors.get(operator, {}).get(key, 0.0)
                now, before = (s.totals.get(operator, 0.0) for s in (self.statistics, then))
                return rate * now / before if now > 0 and before > 0 else rate
        return self.statistics.missed.get(operator, 0.0)

    def _total(self, operator: str, key: str) -> float:
        row = self.keys.row(operator, key)
        return self.statistics.group_rate.get(self.keys.problem.key_group_ids[row], 0.0)

    @cached_property
    def _pair_rates(self) -> dict[tuple[str, str], float]:
        return _rates_of_pairs(self.statistics)


def _rates_of_pairs(statistics: KeyStatistics) -> dict[tuple[str, str], float]:
    """Return the rate of each (operator, key) by its pairs, the largest of all edges.

    Rates of several edges are not added, because one record may be sent on several edges.
    """
    most: dict[tuple[str, str], float] = {}
    for ends, pairs in statistics.pairs.items():
        for side, operator in enumerate(ends):
            sums: dict[str, float] = {}
            for pair, rate in pairs.items():
                sums[pair[side]] = sums.get(pair[side], 0.0) + rate
            for key, rate in sums.items():
                most[operator, key] = max(rate, most.get((operator, key), 0.0))
    return most
