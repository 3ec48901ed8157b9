"""Writes files atomically: a temporary file, then a rename."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any

TEMPORARY_PREFIX = ".tmp-"


def write_atomically(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Replaces ``path`` by ``data``; a reader sees either the old or the new content.

    ``durable`` also waits for the disk, so that the file survives a loss of power. Files beside a
    Spark checkpoint need not be durable: Spark's own commit log does not wait either.
    """
    temporary = path.with_name(f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        _sync_folder(path.parent)


def write_json(path: Path, value: Any) -> None:
    """Writes a JSON document durably and atomically."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    write_atomically(path, text.encode(), durable=True)


def read_json(path: Path) -> Any | None:
    """The JSON document at ``path``, or None if there is none."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
