"""Operators that a snapshot has too few windows of, such as new ones. Pure."""

from __future__ import annotations

import pyarrow as pa

BUSY_WINDOWS = "busy_windows"
LEAST_SHARE = 0.5
"""An operator is not measured if its key groups had load in less than this share of the windows in
which those of other operators had."""


def unmeasured_operators(key_groups: pa.Table) -> dict[str, str]:
    """Operators that had load in too few windows for their mean load to say much.

    A mean over the period takes windows before an operator began for windows without load. The
    yardstick is the operator that had load in most windows, because a job may be idle at times.

    Args:
        key_groups: rows of ``snapshots.key_groups``.

    Returns:
        A sentence for each such operator. Empty if the snapshot does not count busy windows.
    """
    if BUSY_WINDOWS not in key_groups.column_names:
        return {}
    grouped = key_groups.group_by("operator_id").aggregate([(BUSY_WINDOWS, "max")])
    counts = zip(
        grouped["operator_id"].to_pylist(), grouped[f"{BUSY_WINDOWS}_max"].to_pylist(), strict=True
    )
    busy = {name: count for name, count in counts if count is not None}
    most = max(busy.values(), default=0)
    return {
        name: f"none of its key groups had load in more than {count} windows, and those of other "
        f"operators had in {most}"
        for name, count in sorted(busy.items())
        if 0 < count < LEAST_SHARE * most
    }
