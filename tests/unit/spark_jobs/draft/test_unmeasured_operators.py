"""Operators with load in few windows are not measured."""

from __future__ import annotations

import pyarrow as pa

from spark_jobs.draft.unmeasured_operators import unmeasured_operators


def rows(**busy):
    pairs = [(name, count) for name, counts in busy.items() for count in counts]
    return pa.table(
        {
            "operator_id": [name for name, _ in pairs],
            "busy_windows": pa.array([count for _, count in pairs], pa.int64()),
        }
    )


def test_an_operator_that_began_late_is_not_measured():
    found = unmeasured_operators(rows(old=[12, 3], new=[4, 5]))
    assert set(found) == {"new"}
    assert "more than 5 windows" in found["new"]
    assert found["new"].endswith("had in 12")


def test_a_job_that_is_idle_at_times_is_measured():
    assert unmeasured_operators(rows(a=[4, 2], b=[3, 1])) == {}


def test_an_operator_without_any_load_is_quiet_and_not_new():
    assert unmeasured_operators(rows(old=[12], idle=[0, 0])) == {}


def test_snapshots_of_earlier_versions_say_nothing_of_windows():
    assert unmeasured_operators(pa.table({"operator_id": ["a"]})) == {}
    assert unmeasured_operators(rows(a=[None, None], b=[12])) == {}
