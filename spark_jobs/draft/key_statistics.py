"""Statistics of keys from the rows of a snapshot and of earlier ones. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from statistics import median

import pyarrow as pa

from ballast.contracts.identity import is_routable
from ballast.contracts.problem_columns import key_group_names
from solvers.model.key_statistics import EarlierPeriod, Ends, KeyStatistics


@dataclass(frozen=True)
class RememberedKeyPairs:
    """Key pairs of an earlier snapshot."""

    period_end_at: datetime
    key_pairs: pa.Table


def earlier_periods(
    remembered: Sequence[RememberedKeyPairs], now: datetime
) -> tuple[EarlierPeriod, ...]:
    """Statistics of earlier periods, with their age in rounds.

    The length of a round is the median distance of the periods. A round that was skipped therefore
    still counts in the age of earlier periods.
    """
    if not remembered:
        return ()
    ends = [*(each.period_end_at for each in remembered), now]
    round_s = median((later - end).total_seconds() for end, later in pairwise(ends))
    return tuple(
        EarlierPeriod(
            (now - each.period_end_at).total_seconds() / round_s,
            key_statistics(None, each.key_pairs),
        )
        for each in remembered
    )


def key_statistics(key_groups: pa.Table | None, key_pairs: pa.Table) -> KeyStatistics:
    """Rates of keys, pairs and key groups, from the snapshot's rows.

    Counted rates are never too high, so a key never takes more load with it than it has. The error
    bounds of the counts are used for bytes. Keys that may not have a route are left out: a
    collector may count them, but no job would accept the plan.
    """
    keys: dict[str, dict[str, float]] = {}
    errors: dict[str, dict[str, float]] = {}
    pairs: dict[Ends, dict[tuple[str, str], float]] = {}
    pair_errors: dict[Ends, dict[tuple[str, str], float]] = {}
    missed: dict[str | Ends, float] = {}
    totals: dict[str, float] = {}
    names = (
        "kind", "from_operator_id", "from_key", "to_operator_id", "to_key", "records_per_s",
        "error_records_per_s",
    )  # fmt: skip
    columns = (key_pairs[name].to_pylist() for name in names)
    for kind, from_operator, from_key, to_operator, to_key, rate, error in zip(
        *columns, strict=True
    ):
        if kind in ("key", "other_keys"):
            totals[from_operator] = totals.get(from_operator, 0.0) + rate
        if not all(is_routable(key) for key in (from_key, to_key) if key is not None):
            continue
        if kind == "key":
            keys.setdefault(from_operator, {})[from_key] = rate
            errors.setdefault(from_operator, {})[from_key] = error
        elif kind == "pair":
            ends = (from_operator, to_operator)
            pairs.setdefault(ends, {})[from_key, to_key] = rate
            pair_errors.setdefault(ends, {})[from_key, to_key] = error
        elif kind == "other_keys":
            missed[from_operator] = error
        elif kind == "other_pairs":
            missed[from_operator, to_operator] = error
    rates = {} if key_groups is None else _group_rates(key_groups)
    return KeyStatistics(keys, pairs, rates, errors, pair_errors, missed, totals)


def _group_rates(key_groups: pa.Table) -> dict[str, float]:
    names = key_group_names(key_groups["operator_id"], key_groups["key_group"]).to_pylist()
    return dict(zip(names, key_groups["records_per_s"].to_pylist(), strict=True))
