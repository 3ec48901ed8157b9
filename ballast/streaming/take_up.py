"""Moves state as a plan says: key groups to other nodes, single keys to other key groups.

Both are done in one pass over the affected key groups. Until the caller has made durable that the
pass is complete, no existing file is changed or removed: a key group that moves is written on its
new node, and a key group that stays but loses or gets keys is written as a new version beside the
old one. Everything is made from the versions of before. A pass that was interrupted is therefore
repeated as a whole, and no key is ever in two places or in none, unless the plan splits it. Parts
of a key that is joined are merged by the operator's merge function (ADR 73).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from ballast.streaming.key_group_state import StateStore
from ballast.streaming.operators import Operator, State
from ballast.streaming.routing import Placement, key_transfers_between, moves_between
from ballast.streaming.state_json import state_json
from ballast.streaming.state_merge import merged

Sent = dict[tuple[int, int], State]
"""States of keys that change their key group, by (sender, receiver)."""


@dataclass(frozen=True)
class Transfer:
    """A key group that changes its node, loses keys, gets keys, or several of these."""

    operator_id: str
    key_group: int
    source: str
    target: str
    lost: Mapping[str, int] = field(default_factory=dict)
    """Keys that leave, and the key group each goes to."""
    got_from: Mapping[int, str] = field(default_factory=dict)
    """Key groups that send keys, and the node each was on."""

    @property
    def moves(self) -> bool:
        """Whether the key group changes its node."""
        return self.source != self.target

    @property
    def changes_keys(self) -> bool:
        """Whether it loses or gets keys."""
        return bool(self.lost or self.got_from)


@dataclass(frozen=True)
class Carried:
    """What was moved, counted while moving."""

    bytes: int
    keys: int


def transfers_between(old: Placement, new: Placement, operators: Sequence[str]) -> list[Transfer]:
    """Every key group that a change of placement touches, upstream operators first."""
    key_transfers = key_transfers_between(old, new, operators)
    lost: dict[tuple[str, int], dict[str, int]] = defaultdict(dict)
    got_from: dict[tuple[str, int], dict[int, str]] = defaultdict(dict)
    for move in key_transfers:
        lost[move.operator_id, move.from_group][move.key] = move.to_group
        got_from[move.operator_id, move.to_group][move.from_group] = move.source
    moved = {(m.operator_id, m.key_group) for m in moves_between(old, new, operators)}
    order = {operator: position for position, operator in enumerate(operators)}
    return [
        Transfer(
            operator,
            group,
            old.node_of(operator, group),
            new.node_of(operator, group),
            lost.get((operator, group), {}),
            got_from.get((operator, group), {}),
        )
        for operator, group in sorted(
            moved | lost.keys() | got_from.keys(), key=lambda name: (order[name[0]], name[1])
        )
    ]


def carry_over(
    store: StateStore,
    transfers: Sequence[Transfer],
    batch_id: int,
    after_each: Callable[[int], None] = lambda _: None,
    operators: Sequence[Operator] = (),
) -> Carried:
    """Copies state as the transfers say; files at the old places stay.

    Args:
        store: the job's state.
        transfers: the affected key groups.
        batch_id: the batch that takes the plan up.
        after_each: called with the number of transfers done so far.
        operators: the operators of the job, for those whose split keys are joined.

    Returns:
        Bytes that came from another node, and keys that changed their key group.
    """
    size = keys = done = 0
    by_id = {operator.id: operator for operator in operators}
    for name, of_operator in groupby(transfers, key=lambda transfer: transfer.operator_id):
        group = list(of_operator)
        sent = _leaving_states(store, group, batch_id)
        keys += sum(len(part) for part in sent.values())
        for transfer in group:
            if transfer.changes_keys:
                size += _rewrite(store, transfer, sent, batch_id, by_id.get(name))
            else:
                size += store.copy(
                    transfer.operator_id, transfer.key_group, transfer.source, transfer.target,
                    batch_id,
                )  # fmt: skip
            done += 1
            after_each(done)
    return Carried(size, keys)


def _leaving_states(store: StateStore, transfers: Iterable[Transfer], batch_id: int) -> Sent:
    """The states of all keys of an operator that change their key group."""
    sent: Sent = defaultdict(dict)
    for transfer in transfers:
        state = _before(store, transfer, batch_id) if transfer.lost else {}
        for key in transfer.lost.keys() & state.keys():
            sent[transfer.key_group, transfer.lost[key]][key] = state[key]
    return sent


def _rewrite(
    store: StateStore, transfer: Transfer, sent: Sent, batch_id: int, operator: Operator | None
) -> int:
    """Writes a key group without its lost keys and with its new ones; bytes from other nodes."""
    before = _before(store, transfer, batch_id)
    kept = {key: value for key, value in before.items() if key not in transfer.lost}
    received = [
        (node, part)
        for sender, node in sorted(transfer.got_from.items())
        if (part := sent.get((sender, transfer.key_group)))
    ]
    after = dict(kept)
    for _, part in received:
        # In the order of the keys, so that a repetition writes the same bytes.
        for key, value in sorted(part.items()):
            after[key] = _joined(operator, transfer, after[key], value) if key in after else value
    if transfer.moves:
        store.forget(transfer.target, transfer.operator_id, transfer.key_group)
    if before or after:
        store.write_taken_up(
            transfer.target, transfer.operator_id, transfer.key_group, batch_id, after
        )
    parts = [(transfer.source, kept), *received]
    return sum(_size(part, transfer) for node, part in parts if node != transfer.target)


def _joined(operator: Operator | None, transfer: Transfer, first: object, second: object) -> object:
    """Two parts of a key's state as one; parts are read from files, so either may be changed."""
    if operator is None:
        where = f"{transfer.operator_id}/{transfer.key_group}"
        raise RuntimeError(f"a key has state in {where} and in a key group that sends it there")
    return merged(operator, first, second)


def _before(store: StateStore, transfer: Transfer, batch_id: int) -> State:
    found = store.before_take_up(
        transfer.source, transfer.operator_id, transfer.key_group, batch_id
    )
    return found or {}


def _size(part: State, transfer: Transfer) -> int:
    return len(state_json(part, f"{transfer.operator_id}/{transfer.key_group}")) if part else 0


def forget_old_places(store: StateStore, transfers: Iterable[Transfer]) -> None:
    """Removes the state of moved key groups from the nodes that no longer own them."""
    for transfer in transfers:
        if transfer.moves:
            store.forget(transfer.source, transfer.operator_id, transfer.key_group)
