"""Identities: what makes two snapshots, two plan contents or two plans the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

ID_LENGTH = 16


def digest(*parts: str) -> str:
    """SHA-256 over the parts, each behind its length so that no two lists run together."""
    sha = hashlib.sha256()
    for part in parts:
        data = part.encode()
        sha.update(f"{len(data)}:".encode())
        sha.update(data)
    return sha.hexdigest()


def content_hash(assignments: Iterable[tuple[str, int, str]]) -> str:
    """Hash of a plan's content: rows of (operator_id, key_group, node_id), in any order."""
    rows = sorted((operator, int(group), node) for operator, group, node in assignments)
    return digest(*(json.dumps(row, ensure_ascii=True, separators=(",", ":")) for row in rows))


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
