"""Pages of the moves of a plan, on real Delta tables."""

from __future__ import annotations

import pytest

from ballast.contracts.errors import InvalidInput
from ballast.contracts.records import AssignedKeyGroup
from ballast.contracts.settings import Settings
from ballast.readmodel.job_history import JobHistory
from ballast.readmodel.moves import MoveFilter, moves_page
from ballast.store.plans import read_assignment
from bench.review_page.warehouse import ids_of

JOB = "clicks"
ANY = MoveFilter()


def every_move(
    history: JobHistory, plan_id: str, wanted: MoveFilter, order: str, limit: int
) -> list[AssignedKeyGroup]:
    rows, after = [], None
    while True:
        page = moves_page(history, plan_id, wanted, order, after, limit)
        rows += page.rows
        assert len(page.rows) <= limit
        if page.after is None:
            return rows
        after = page.after


def expected_moves(settings: Settings, plan_id: str) -> list[AssignedKeyGroup]:
    rows = read_assignment(settings, JOB, plan_id)
    return [row for row in rows if row.node_id != row.previous_node_id]


@pytest.mark.parametrize("limit", [1, 4, 6, 100])
@pytest.mark.parametrize("order", ["key", "bytes"])
def test_pages_hold_every_move_once_and_in_order(
    settings: Settings, history: JobHistory, order: str, limit: int
) -> None:
    plan_id = ids_of(JOB, 3)[2]
    expected = expected_moves(settings, plan_id)
    if order == "bytes":
        expected.sort(key=lambda r: (-r.state_bytes, r.operator_id, r.key_group))
    found = every_move(history, plan_id, ANY, order, limit)
    assert [(r.operator_id, r.key_group) for r in found] == [
        (r.operator_id, r.key_group) for r in expected
    ]


def test_moves_are_filtered_by_operator_and_nodes(settings: Settings, history: JobHistory) -> None:
    plan_id = ids_of(JOB, 1)[2]
    one = expected_moves(settings, plan_id)[0]
    wanted = MoveFilter(one.operator_id, one.previous_node_id, one.node_id)
    found = every_move(history, plan_id, wanted, "key", 10)
    assert one.key_group in [row.key_group for row in found]
    assert {row.operator_id for row in found} == {one.operator_id}
    assert every_move(history, plan_id, MoveFilter("x' OR '1'='1"), "key", 10) == []


def test_an_unknown_order_of_moves_is_refused(history: JobHistory) -> None:
    with pytest.raises(InvalidInput, match="key, bytes"):
        moves_page(history, ids_of(JOB, 1)[2], ANY, "color", None, 10)
