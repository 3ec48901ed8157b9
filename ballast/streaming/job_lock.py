"""Lock that allows one process per job; two would move and count the same state."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType

from ballast.contracts.errors import InvalidInput


class JobLock:
    """A lock file; the kernel frees the lock when the process ends, however it ends."""

    def __init__(self, path: Path, job: str) -> None:
        self.path, self.job = path, job
        self._descriptor: int | None = None

    def __enter__(self) -> JobLock:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.pread(descriptor, 32, 0).decode().strip() or "unknown"
            os.close(descriptor)
            raise InvalidInput(
                f"job {self.job} already runs in process {owner} ({self.path} is locked)",
                value=self.job, allowed="one process per job",
                remedy=f"stop it with `kill {owner}`, or use another BALLAST_HOME",
            ) from error  # fmt: skip
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._descriptor = descriptor
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
