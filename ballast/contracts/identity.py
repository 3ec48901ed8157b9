"""Ids and hashes of snapshots, plan contents and plans, and names of key groups."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import Any

from ballast.contracts.regions import Weighted
from ballast.contracts.tables import LONGEST_ROUTED_KEY_BYTES

ID_LENGTH = 16


def digest(*parts: str) -> str:
    """SHA-256 of the parts. Each part follows its length, so different lists never hash alike."""
    sha = hashlib.sha256()
    for part in parts:
        data = part.encode()
        sha.update(f"{len(data)}:".encode())
        sha.update(data)
    return sha.hexdigest()


Scaled = tuple[str, str, str, int | None]
"""The content of a row of plans.scaling: subject, subject_id, action, wanted."""
Split = tuple[str, str, int]
"""The content of a row of plans.splits: operator, key, and the key group of one part."""


def content_hash(
    assignments: Iterable[tuple[str, int, str]],
    routes: Iterable[tuple[str, str, int]] = (),
    scaling: Iterable[Scaled] = (),
    weights: Iterable[Weighted] = (),
    splits: Iterable[Split] = (),
) -> str:
    """Hash of a plan's content, rows in any order.

    Empty routes, scaling, weights and splits do not change the hash, so plans from before these
    tables existed keep their hash.

    Args:
        assignments: rows of (operator_id, key_group, node_id).
        routes: rows of (operator_id, key, key_group).
        scaling: rows of (subject, subject_id, action, wanted).
        weights: rows of (region_id, worker_id, weight).
        splits: rows of (operator_id, key, key_group), one for each part of a key.
    """
    rows = sorted((operator, int(group), node) for operator, group, node in assignments)
    return digest(
        *map(_canonical, rows),
        *_route_parts(routes),
        *_scaling_parts(scaling),
        *_weight_parts(weights),
        *_split_parts(splits),
    )


def _split_parts(splits: Iterable[Split]) -> list[str]:
    """One part per key. No other part is a list that ends with a list."""
    rows = sorted((operator, key, int(group)) for operator, key, group in splits)
    return [
        _canonical(["splits", *of_key, [group for _, _, group in parts]])
        for of_key, parts in groupby(rows, key=itemgetter(0, 1))
    ]


def _weight_parts(weights: Iterable[Weighted]) -> list[str]:
    """One part per row. No other part is a list of three texts and a number."""
    return sorted(_canonical(["weights", *row]) for row in weights)


def _scaling_parts(scaling: Iterable[Scaled]) -> list[str]:
    """One part per row. A list of route keys never looks like one, because keys are all text."""
    return sorted(_canonical(["scaling", *row]) for row in scaling)


def _route_parts(routes: Iterable[tuple[str, str, int]]) -> list[str]:
    """One part with all keys of an operator and one with their key groups: there may be a million.

    A part of an assignment is a list of a text and then a number, so it never looks like these.
    """
    rows = sorted((operator, key, int(group)) for operator, key, group in routes)
    parts = []
    for operator, of_operator in groupby(rows, key=itemgetter(0)):
        _, keys, groups = zip(*of_operator, strict=True)
        parts += [_canonical(["routes of", operator]), _canonical(keys), _canonical(groups)]
    return parts


def _canonical(value: Any) -> str:
    """JSON in ASCII: every string has one form, even if it is not valid Unicode."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def plan_id(job: str, snapshot_id: str, content: str) -> str:
    """The id of a plan. The same content solved from another snapshot is another plan."""
    return digest("plan", job, snapshot_id, content)[:ID_LENGTH]


def snapshot_id(job: str, run_id: str, pins: Iterable[str]) -> str:
    """The id of a snapshot: a run over pinned table versions and a pinned period.

    The pins are part of the id, so that two attempts of one task that read different table
    versions never write rows under the same id.
    """
    return digest("snapshot", job, run_id, *pins)[:ID_LENGTH]


def key_group_name(operator_id: str, key_group: int) -> str:
    """The name of a key group that is unique across operators, as problem folders use it."""
    return f"{operator_id}/{key_group}"


def split_key_group_name(name: str) -> tuple[str, int]:
    """The operator and number in a name of :func:`key_group_name`."""
    operator_id, _, number = name.rpartition("/")
    return operator_id, int(number)


def hashed_key_group(key: str, key_groups: int) -> int:
    """The key group of a key that has no route. The key must be encodable as UTF-8."""
    return zlib.crc32(key.encode()) % key_groups


def is_routable(key: str) -> bool:
    """Whether a key may have a route and be counted: UTF-8 of at most the allowed length."""
    if len(key) > LONGEST_ROUTED_KEY_BYTES:
        return False
    if key.isascii():
        return True
    try:
        return len(key.encode()) <= LONGEST_ROUTED_KEY_BYTES
    except UnicodeEncodeError:
        return False
