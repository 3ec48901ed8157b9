"""State per node and key group, in versions that make replays and retries exact.

The state of a key group is one JSON document per version in
``<root>/<node>/<operator>/<group>/``. A version is (batch, stage). A task reads the newest version
below its own and writes its own by atomic rename. Doing the same work twice therefore gives the
same file, and a repetition never reads what a crashed attempt left
(ADR 6).
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ballast.streaming.atomic_files import TEMPORARY_PREFIX, write_atomically
from ballast.streaming.operators import State
from ballast.streaming.state_json import state_json

SUFFIX = ".json"
EMPTY = b"{}"
"""A state that was emptied; its size counts as 0."""

# Old versions that are kept to be overwritten. A key group is written once for each stage that has
# records for it. Without spares, every second write created a file and removed another, and because
# ext4 skips recently freed inodes, writes became slower the longer a job ran.
SPARES_KEPT = 2

# A take-up at batch b writes a key group that lost or got keys as version (b - 1, this stage). That
# is above every version of the batch before and below every version of b. The version that it was
# made from stays, so that an interrupted take-up is repeated from the same state.
TAKEN_UP_STAGE = 9999


def version_name(batch_id: int, stage: int) -> str:
    """File name of a version; names sort as versions do."""
    return f"{batch_id:014d}-{stage:04d}{SUFFIX}"


def newest_below(names: Sequence[str], batch_id: int, stage: int) -> str | None:
    """The newest version strictly below (batch, stage), or None."""
    limit = version_name(batch_id, stage)
    return max((name for name in names if name < limit), default=None)


def prunable(names: Sequence[str], batch_id: int) -> list[str]:
    """Versions no replay can need while ``batch_id`` is running.

    Batches before it are committed, so that a replay starts at the earliest from the newest version
    below it. That version and all versions of the batch itself stay.
    """
    committed = sorted(name for name in names if name < version_name(batch_id, 0))
    return committed[:-1]


@dataclass(frozen=True)
class Slot:
    """The folder of one key group on one node, as one task uses it in (batch, stage)."""

    folder: str
    batch_id: int
    stage: int

    def load(self) -> tuple[State, bytes, list[str]]:
        """The state to start from, its bytes as stored, and the names of all versions."""
        names = _versions(self.folder)
        name = newest_below(names, self.batch_id, self.stage)
        if name is None:
            return {}, b"", names
        data = _read(f"{self.folder}/{name}")
        return json.loads(data), b"" if data == EMPTY else data, names

    def save(self, state: State, before: bytes, names: Sequence[str]) -> int:
        """Writes this version unless the state is unchanged; returns the bytes of the state."""
        data = state_json(state, self.folder) if state else b""
        if data != before:
            # An emptied state is written too, or an older version would be read next.
            old = prunable(names, self.batch_id)
            name = version_name(self.batch_id, self.stage)
            _write(self.folder, name, data or EMPTY, old[0] if old else None)
            for other in old[1 + SPARES_KEPT :]:
                _remove(f"{self.folder}/{other}")
        return len(data)


@dataclass(frozen=True)
class StateStore:
    """All state of a job: one folder for each node, on storage that every executor reaches."""

    root: Path

    def folder(self, node: str, operator_id: str, key_group: int) -> Path:
        """Folder of a key group's versions on a node."""
        return self.root / node / operator_id / f"{key_group:07d}"

    def size(self, node: str, operator_id: str, key_group: int) -> int:
        """Bytes of the newest version of a key group on a node."""
        folder = self.folder(node, operator_id, key_group)
        names = _versions(str(folder))
        size = (folder / max(names)).stat().st_size if names else 0
        return 0 if size == len(EMPTY) else size

    def read(self, node: str, operator_id: str, key_group: int) -> State:
        """The newest version of a key group on a node."""
        folder = self.folder(node, operator_id, key_group)
        names = _versions(str(folder))
        return dict(json.loads((folder / max(names)).read_bytes())) if names else {}

    def copy(
        self, operator_id: str, key_group: int, source: str, target: str, batch_id: int
    ) -> int:
        """Copies the state from before ``batch_id`` to another node; returns the bytes copied.

        The target then has this version only, so that an interrupted copy can be repeated.
        """
        origin = self.folder(source, operator_id, key_group)
        destination = self.folder(target, operator_id, key_group)
        _clear(destination)
        name = _before_take_up(origin, batch_id)
        if name is None:
            return 0
        data = (origin / name).read_bytes()
        destination.mkdir(parents=True, exist_ok=True)
        write_atomically(destination / name, data)
        return 0 if data == EMPTY else len(data)

    def before_take_up(
        self, node: str, operator_id: str, key_group: int, batch_id: int
    ) -> State | None:
        """The state from before a take-up at ``batch_id``, even if the take-up has begun."""
        folder = self.folder(node, operator_id, key_group)
        name = _before_take_up(folder, batch_id)
        return None if name is None else dict(json.loads((folder / name).read_bytes()))

    def write_taken_up(
        self, node: str, operator_id: str, key_group: int, batch_id: int, state: State
    ) -> None:
        """Writes the state of a key group after a take-up at ``batch_id``."""
        folder = self.folder(node, operator_id, key_group)
        folder.mkdir(parents=True, exist_ok=True)
        data = state_json(state, str(folder)) if state else EMPTY
        write_atomically(folder / version_name(batch_id - 1, TAKEN_UP_STAGE), data)

    def forget(self, node: str, operator_id: str, key_group: int) -> None:
        """Remove what a node still holds of a key group that it no longer owns."""
        _clear(self.folder(node, operator_id, key_group))

    def discard_from(self, batch_id: int) -> None:
        """Remove what a broken attempt of this batch left, and temporary files.

        A repetition writes the same versions if the operators are deterministic; one that is not
        must not find a version of the first attempt that its own does not write.
        """
        first = version_name(batch_id, 0)
        for path in self.root.glob("*/*/*/*"):
            if path.name.startswith(TEMPORARY_PREFIX) or path.name >= first:
                path.unlink(missing_ok=True)


def _before_take_up(folder: Path, batch_id: int) -> str | None:
    return newest_below(_versions(str(folder)), batch_id - 1, TAKEN_UP_STAGE)


def _versions(folder: str) -> list[str]:
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return [name for name in names if name.endswith(SUFFIX)]


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()


def _write(folder: str, name: str, data: bytes, spare: str | None) -> None:
    """Like ``write_atomically``, but overwrites a spare file if there is one.

    It runs for every key group of every batch, and its time counts as the key group's load. Finding
    a free inode took 20 us in one folder and 400 us in another; an existing file needs none. The
    spare is renamed first, so that incomplete content never has the name of a version. It is cut to
    length at the end, because ext4 flushes a file that is cut to length zero.
    """
    temporary = f"{folder}/{TEMPORARY_PREFIX}{os.urandom(8).hex()}"
    descriptor = _open_spare(folder, spare, temporary)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
        os.ftruncate(descriptor, len(data))
    finally:
        os.close(descriptor)
    os.replace(temporary, f"{folder}/{name}")


def _open_spare(folder: str, spare: str | None, temporary: str) -> int:
    if spare is not None:
        try:
            os.rename(f"{folder}/{spare}", temporary)
        except FileNotFoundError:  # another attempt of this task took it
            spare = None
    try:
        return os.open(temporary, os.O_WRONLY | os.O_CREAT, 0o644)
    except FileNotFoundError:
        os.makedirs(folder, exist_ok=True)
        return os.open(temporary, os.O_WRONLY | os.O_CREAT, 0o644)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def _clear(folder: Path) -> None:
    for name in os.listdir(folder) if folder.is_dir() else []:
        _remove(str(folder / name))
