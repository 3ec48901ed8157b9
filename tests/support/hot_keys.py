"""A job whose heaviest key has a given part of its load, as rows of a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ballast.contracts.identity import hashed_key_group
from ballast.contracts.policy import JobPolicy, parse_policy
from ballast.contracts.records import Snapshot
from ballast.contracts.settings import Settings
from ballast.store.tables import append
from tests.support.snapshots import snapshot_rows

Row = dict[str, Any]
JOB, OPERATOR, HOT = "hot", "count", "the"
GROUPS, NODES, KEYS = 36, 6, 600
RECORDS_PER_S = 1000.0
CPU_PER_RECORD = 0.003


def hot_policy(**changes: Any) -> JobPolicy:
    """A policy of one operator whose keys may be split."""
    data = {
        "job": JOB,
        "window_s": 5,
        "statistics_period_s": 60,
        "operators": [{"id": OPERATOR, "key_groups": GROUPS, "partition_key": ["word"]}],
        "nodes": [{"id": f"node-{number}"} for number in range(NODES)],
        "splits": {"operators": [OPERATOR]},
        **changes,
    }
    return parse_policy(data, "test.yaml")


def key_rates(share: float, total: float = RECORDS_PER_S) -> dict[str, float]:
    """Records per second of each key; the hot key has this share of them."""
    others = {f"word {number}": total * (1 - share) / KEYS for number in range(KEYS)}
    return {HOT: total * share, **others}


def group_rates(
    rates: Mapping[str, float], splits: Mapping[str, tuple[int, ...]] | None = None
) -> list[float]:
    """Records per second of each key group, with the keys in their parts."""
    found = [0.0] * GROUPS
    for key, rate in rates.items():
        parts = (splits or {}).get(key) or (hashed_key_group(key, GROUPS),)
        for group in parts:
            found[group] += rate / len(parts)
    return found


def write_hot_snapshot(
    settings: Settings,
    policy: JobPolicy,
    run_id: str,
    share: float,
    splits: Mapping[str, tuple[int, ...]] | None = None,
    **own: Any,
) -> Snapshot:
    """Append a snapshot in which the hot key has this share of the records and of the load."""
    rates = key_rates(share)
    by_group = group_rates(rates, splits)
    rows = snapshot_rows(policy, run_id, traffic=False, **own)
    for row in rows["snapshots.key_groups"]:
        rate = by_group[row["key_group"]]
        row |= {"records_per_s": rate, "cpu_load_cores": rate * CPU_PER_RECORD}
    rows["snapshots.snapshots"][0]["key_pairs_table_version"] = 1
    ids = {"job": policy.job, "snapshot_id": rows["snapshots.snapshots"][0]["snapshot_id"]}
    rows["snapshots.key_pairs"] = [{**ids, **_key_row(key, rate)} for key, rate in rates.items()]
    for table, of_table in rows.items():
        if of_table:
            append(settings, table, of_table)
    return Snapshot.from_row(rows["snapshots.snapshots"][0])


def _key_row(key: str, rate: float) -> Row:
    return {
        "kind": "key",
        "from_operator_id": OPERATOR,
        "from_key": key,
        "to_operator_id": None,
        "to_key": None,
        "records_per_s": rate,
        "error_records_per_s": 0.0,
    }
