"""Pages of the moves of a plan: key groups whose node the plan changes."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow.compute as pc

from ballast.contracts.errors import InvalidInput
from ballast.contracts.records import AssignedKeyGroup
from ballast.readmodel.job_history import JobHistory
from ballast.store.paging import Key, Order, PageRange, read_page
from ballast.store.tables import Filter

ORDERS = {
    "key": Order(("operator_id", "key_group")),
    "bytes": Order(("operator_id", "key_group"), descending="state_bytes"),
}


@dataclass(frozen=True)
class MoveFilter:
    """Selects moves by operator and nodes; a field that is None selects all."""

    operator_id: str | None = None
    from_node_id: str | None = None
    to_node_id: str | None = None

    def filters(self) -> list[Filter]:
        """Return the conditions on the columns of the assignment table."""
        pairs = {
            "operator_id": self.operator_id,
            "previous_node_id": self.from_node_id,
            "node_id": self.to_node_id,
        }
        return [(name, "=", value) for name, value in pairs.items() if value is not None]


@dataclass(frozen=True)
class MovesPage:
    """A page of moves."""

    rows: list[AssignedKeyGroup]
    after: Key | None
    """Where the next page starts; None on the last page."""


def moves_page(
    history: JobHistory, plan_id: str, wanted: MoveFilter, order: str, after: Key | None, limit: int
) -> MovesPage:
    """Read one page of the moves of a plan.

    Args:
        history: the history of the job.
        plan_id: the plan.
        wanted: selects the moves.
        order: a key of ``ORDERS``.
        after: ``after`` of the previous page; None for the first page.
        limit: the largest number of moves on the page.

    Returns:
        The page; it is empty where the job has no assignments.

    Raises:
        InvalidInput: ``order`` is not in ``ORDERS``.
    """
    if order not in ORDERS:
        raise InvalidInput(f"order is {order[:40]!r}", value=order, allowed=", ".join(ORDERS))
    page = history.cache.apply(
        AssignedKeyGroup.table,
        lambda table: read_page(
            table, history.job,
            where=[("plan_id", "=", plan_id), *wanted.filters()],
            condition=pc.field("node_id") != pc.field("previous_node_id"),
            order=ORDERS[order], span=PageRange(limit, after),
        ),
    )  # fmt: skip
    if page is None:
        return MovesPage([], None)
    return MovesPage([AssignedKeyGroup.from_row(row) for row in page.rows], page.after)
