"""A job with pairs of keys that exchange records, and its rows of key statistics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ballast.contracts.identity import hashed_key_group
from ballast.contracts.policy import JobPolicy
from tests.support.policies import small_policy

Row = dict[str, Any]
GROUPS, KEYS = 4, 24


def keyed_policy(**fields: Any) -> JobPolicy:
    """A policy of two operators with state by key, whose edge may be routed by key."""
    given = {
        "operators": {"parse": GROUPS, "count": GROUPS},
        "partition_keys": {"parse": "plane", "count": "place"},
        "objective": {"kind": "joint", "max_load_distance_pct": 60.0},
        "routing": {"edges": [{"from": "parse", "to": "count"}], "max_imbalance": 1.5},
        "gate": {"records_per_byte": 0.0},
    }
    return small_policy(**{**given, **fields})


def pairs() -> Iterator[tuple[str, str]]:
    """Key i of one operator sends to key i of the other operator only."""
    for number in range(KEYS):
        yield f"plane {number}", f"place {number}"


def key_pair_rows(rate: float = 10.0) -> list[Row]:
    """Rates of pairs and keys, as rows of snapshots.key_pairs without ids."""
    rows = []
    for plane, place in pairs():
        rows += [
            _row("pair", "parse", plane, "count", place, rate),
            _row("key", "parse", plane, None, None, rate),
            _row("key", "count", place, None, None, rate),
        ]
    return rows


def _row(
    kind: str,
    from_operator: str,
    from_key: str,
    to_operator: str | None,
    to_key: str | None,
    rate: float,
) -> Row:
    return {
        "kind": kind,
        "from_operator_id": from_operator,
        "from_key": from_key,
        "to_operator_id": to_operator,
        "to_key": to_key,
        "records_per_s": rate,
        "error_records_per_s": 0.0,
    }


def group_rates(rate: float = 10.0) -> dict[tuple[str, int], float]:
    """Records per second of each key group."""
    rates = {(name, group): 0.0 for name in ("parse", "count") for group in range(GROUPS)}
    for plane, place in pairs():
        rates["parse", hashed_key_group(plane, GROUPS)] += rate
        rates["count", hashed_key_group(place, GROUPS)] += rate
    return rates


def flows(rate: float = 10.0) -> dict[tuple[int, int], float]:
    """Records per second from key groups of parse to those of count."""
    found: dict[tuple[int, int], float] = {}
    for plane, place in pairs():
        ends = hashed_key_group(plane, GROUPS), hashed_key_group(place, GROUPS)
        found[ends] = found.get(ends, 0.0) + rate
    return found
