"""The limits that a job's policy adds to a table of metrics.

The names of the policy become allowed values of columns, and a rule between columns becomes a
derived column (a fact) with limits. So the suite that validates the rows and the predicate that
selects the bad rows are both generated from one definition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from ballast.contracts.policy import JobPolicy
from ballast.contracts.tables import Column, Table

# Clocks of the streaming job and of this machine may differ by this much, and a window may end
# while its metrics are being pinned.
CLOCK_SKEW_S = 5
MICROS = 1_000_000
# Below any fact: a limit needs both ends, because NaN passes a limit with one end.
FAR_BELOW = -(10**18)


@dataclass(frozen=True)
class CheckedTable:
    """A table with the limits that hold for one job at one time."""

    table: Table
    facts: Mapping[str, str] = field(default_factory=dict)
    """SQL of each derived column."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Reason for a row that breaks a limit of the column, if the column name is not enough."""


@dataclass(frozen=True)
class _Fact:
    column: Column
    sql: str
    reason: str


def checked_table(table: Table, policy: JobPolicy, as_of: datetime) -> CheckedTable:
    """Return the table's definition with the limits of a job's policy.

    Args:
        table: The definition of the table.
        policy: The policy of the job: names, windows and thresholds.
        as_of: The time of the check; windows that end later are bad.
    """
    columns = tuple(_narrowed(column, policy) for column in table.columns)
    facts = [
        *_window_facts(policy, as_of),
        *_key_group_facts(table, policy),
        *_connection_facts(table, policy),
    ]
    return CheckedTable(
        table=replace(table, columns=(*columns, *(fact.column for fact in facts))),
        facts={fact.column.name: fact.sql for fact in facts},
        reasons={
            **{fact.column.name: fact.reason for fact in facts},
            **{c.name: f"unknown {_kind(c.name)} in {c.name}" for c in columns if _kind(c.name)},
        },
    )


def _narrowed(column: Column, policy: JobPolicy) -> Column:
    known = {
        "operator": tuple(operator.id for operator in policy.operators),
        "node": tuple(node.id for node in policy.nodes),
        "region": tuple(region.id for region in policy.regions),
    }.get(_kind(column.name))
    return replace(column, allowed=known) if known else column


def _kind(column: str) -> str:
    """Return the kind of a column of ids: operator, node or region; empty for other columns."""
    for kind in ("operator", "node", "region"):
        if column == f"{kind}_id" or column.endswith(f"_{kind}_id"):
            return kind
    return ""


def _window_facts(policy: JobPolicy, as_of: datetime) -> list[_Fact]:
    window = round(policy.window_s * MICROS)
    late = round(policy.thresholds.late_after_s * MICROS)
    start, end = "unix_micros(window_start_at)", "unix_micros(window_end_at)"
    now = round(as_of.timestamp() * MICROS)
    return [
        _exact("window_offset_us", f"pmod({start}, {window})", 0, "window misaligned"),
        _exact("window_length_us", _minus(end, start), window, "window of another length"),
        _at_most("window_ahead_us", _minus(end, now), CLOCK_SKEW_S * MICROS,
                 "window in the future"),
        _at_most("late_by_us", _minus("unix_micros(emitted_at)", end), late, "late"),
        _exact("window_date_off_days", "datediff(window_date, CAST(window_end_at AS DATE))", 0,
               "window_date is not the date of window_end_at"),
    ]  # fmt: skip


def _key_group_facts(table: Table, policy: JobPolicy) -> list[_Fact]:
    cases = " ".join(f"WHEN '{o.id}' THEN {o.key_groups}" for o in policy.operators)
    return [
        _at_most(
            f"{name}_excess",
            _minus(name, f"CASE {name.replace('key_group', 'operator_id')} {cases} END"),
            -1,
            f"unknown key group in {name}",
        )
        for name in table.column_names
        if name.endswith("key_group")
    ]


def _connection_facts(table: Table, policy: JobPolicy) -> list[_Fact]:
    """Return the rules of connections: known workers, and no time longer than the window."""
    if "worker_id" not in table.column_names:
        return []
    cases = " ".join(
        f"WHEN '{region.id}' THEN worker_id IN ({', '.join(map(_quoted, region.worker_ids))})"
        for region in policy.regions
    )
    # A window is read within one more window, and it may be read late.
    longest = 2000 * policy.window_s
    spent = "try_cast(greatest(busy_ms, blocked_ms) AS BIGINT)"
    known = f"CASE region_id {cases} END" if cases else "NULL"
    return [
        _exact("is_known_worker", f"CAST({known} AS BIGINT)", 1, "unknown worker in worker_id"),
        _at_most("spent_ms", spent, round(longest), "busy or blocked for longer than the window"),
    ]


def _quoted(name: str) -> str:
    """Return a name of the policy as SQL; the pattern of names allows no quote."""
    return f"'{name}'"


def _minus(left: str, right: object) -> str:
    # A plain minus raises on overflow, and one very large value would fail the whole run.
    return f"try_subtract({left}, {right})"


def _exact(name: str, sql: str, value: int, reason: str) -> _Fact:
    return _Fact(_column(name, value, value), sql, reason)


def _at_most(name: str, sql: str, value: int, reason: str) -> _Fact:
    return _Fact(_column(name, FAR_BELOW, value), sql, reason)


def _column(name: str, minimum: int, maximum: int) -> Column:
    # NULL if one of its columns is NULL, and that is a reason of its own.
    return Column(name, "long", "Derived for the check", None, True, minimum, maximum)
