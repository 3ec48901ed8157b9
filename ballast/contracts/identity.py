"""Identities: what makes two snapshots, two plan contents or two plans the same."""

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
    """SHA-256 over the parts, each behind its length so that no two lists run together."""
    sha = hashlib.sha256()
    for part in parts:
        data = part.encode()
        sha.update(f"{len(data)}:".encode())
        sha.update(data)
    return sha.hexdigest()


Scaled = tuple[str, str, str, int | None]
"""What is to be done by a row of plans.scaling: subject, subject_id, action, wanted."""


def content_hash(
    assignments: Iterable[tuple[str, int, str]],
    routes: Iterable[tuple[str, str, int]] = (),
    scaling: Iterable[Scaled] = (),
    weights: Iterable[Weighted] = (),
) -> str:
    """Hash of a plan's content, rows in any order.

    Rows of (operator_id, key_group, node_id), of (operator_id, key, key_group), of (subject,
    subject_id, action, wanted) and of (region_id, worker_id, weight). Without routes, scaling or
    weights it is the hash of the others alone, so plans made before there were any keep theirs.
    """
    rows = sorted((operator, int(group), node) for operator, group, node in assignments)
    return digest(
        *map(_canonical, rows),
        *_route_parts(routes),
        *_scaling_parts(scaling),
        *_weight_parts(weights),
    )


def _weight_parts(weights: Iterable[Weighted]) -> list[str]:
    """A part a row: a name, two texts and a number, as no other part has them."""
    return sorted(_canonical(["weights", *row]) for row in weights)


def _scaling_parts(scaling: Iterable[Scaled]) -> list[str]:
    """A part a row. Keys of a route are all text, so no list of them looks like one."""
    return sorted(_canonical(["scaling", *row]) for row in scaling)


def _route_parts(routes: Iterable[tuple[str, str, int]]) -> list[str]:
    """All keys of an operator in one part, then all their key groups: a plan may have a million.

    No part of an assignment looks like these: those are lists that begin with a string and go on
    with a number.
    """
    rows = sorted((operator, key, int(group)) for operator, key, group in routes)
    parts = []
    for operator, of_operator in groupby(rows, key=itemgetter(0)):
        _, keys, groups = zip(*of_operator, strict=True)
        parts += [_canonical(["routes of", operator]), _canonical(keys), _canonical(groups)]
    return parts


def _canonical(value: Any) -> str:
    """JSON in ASCII: every string has one form, also one that is no valid Unicode."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def plan_id(job: str, snapshot_id: str, content: str) -> str:
    """Identity of a plan: the same content solved from another snapshot is another plan."""
    return digest("plan", job, snapshot_id, content)[:ID_LENGTH]


def snapshot_id(job: str, run_id: str, pins: Iterable[str]) -> str:
    """Identity of a snapshot: a run over pinned table versions and a pinned period.

    The pins are part of it so that two attempts of one task that saw different versions never
    write rows under one id.
    """
    return digest("snapshot", job, run_id, *pins)[:ID_LENGTH]


def key_group_name(operator_id: str, key_group: int) -> str:
    """One name for a key group across operators, as problem folders use it."""
    return f"{operator_id}/{key_group}"


def split_key_group_name(name: str) -> tuple[str, int]:
    """Operator and number of a key group named by :func:`key_group_name`."""
    operator_id, _, number = name.rpartition("/")
    return operator_id, int(number)


def hashed_key_group(key: str, key_groups: int) -> int:
    """Key group of a key that has no route; of text that UTF-8 can hold, as every counted key."""
    return zlib.crc32(key.encode()) % key_groups


def is_routable(key: str) -> bool:
    """Whether a key may have a route and be counted: text of a length that tables can bear."""
    if len(key) > LONGEST_ROUTED_KEY_BYTES:
        return False
    if key.isascii():
        return True
    try:
        return len(key.encode()) <= LONGEST_ROUTED_KEY_BYTES
    except UnicodeEncodeError:
        return False
