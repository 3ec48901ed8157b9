"""A token in the state folder that tells a shared folder from another one of the same path.

The driver writes a new token at every start, and every task reads it back before it reads state. A
folder that is missing or private on a worker has no such file: without this check, the task would
take it for empty state, and sums would be wrong. The name of the file is new at every start, so
that a network file system cannot answer from a cache. A task of an earlier driver finds its token
gone and fails.
"""

from __future__ import annotations

import socket
import uuid
from dataclasses import dataclass
from pathlib import Path

from ballast.contracts.errors import StateNotShared
from ballast.streaming.atomic_files import read_json, write_atomically, write_json

TOKEN_PREFIX = "token-"  # noqa: S105 - the name of a file, no secret
REMEDY = (
    "to fix it: put BALLAST_HOME on storage that the driver and every executor reach under the "
    "same path"
)


@dataclass(frozen=True)
class StateToken:
    """The token of one start of the job, in the root folder of its state."""

    root: str
    value: str

    def check_on_worker(self) -> None:
        """Checks in a task that this process sees the folder that the driver writes.

        Raises:
            StateNotShared: the token of the driver is not in the folder.
        """
        try:
            with open(f"{self.root}/{TOKEN_PREFIX}{self.value}", "rb", buffering=0) as file:
                found = file.read().decode()
        except (FileNotFoundError, NotADirectoryError):
            found = ""
        if found != self.value:
            raise StateNotShared(
                f"the state folder {self.root} on host {socket.gethostname()} is not the one that "
                "the driver of the job writes, so the state of key groups is not there; "
                f"nothing was processed; {REMEDY}"
            )


class StateTokens:
    """Writes the token of each start, and checks that of the start before.

    Args:
        root: root folder of the state.
        record: file outside of that folder that keeps the token of the last start.
    """

    def __init__(self, root: Path, record: Path) -> None:
        self.root, self.record = root, record

    def start(self, *, is_first_start: bool) -> StateToken:
        """Checks that the folder is that of the last start, and writes the token of this start.

        An interrupted start leaves two tokens in the folder, one of which is the recorded one.

        Args:
            is_first_start: whether the job has not run a batch.

        Raises:
            StateNotShared: the folder is missing, or it is not the one of the last start.
        """
        self._check_last(read_json(self.record), is_first_start=is_first_start)
        self.root.mkdir(parents=True, exist_ok=True)
        value = uuid.uuid4().hex
        write_atomically(self.root / f"{TOKEN_PREFIX}{value}", value.encode(), durable=True)
        write_json(self.record, value)
        for path in self.root.glob(f"{TOKEN_PREFIX}*"):
            if path.name != f"{TOKEN_PREFIX}{value}":
                path.unlink(missing_ok=True)
        return StateToken(str(self.root), value)

    def _check_last(self, last: str | None, *, is_first_start: bool) -> None:
        if last is None:
            present = is_first_start or self.root.is_dir()
        else:
            present = (self.root / f"{TOKEN_PREFIX}{last}").is_file()
        if not present:
            raise StateNotShared(
                f"the state folder {self.root} is missing, or is not the one that the job used "
                f"when it last ran on this home; to fix it: mount or restore the folder, together "
                f"with {self.record.parent}; remove the whole folder {self.root.parent} only to "
                "start again without state"
            )
