"""Builds a Maven project offline, from files whose checksums are in the project's ``maven.lock``.

A line of the lock is a sha256 and a path in a Maven repository; all Maven plugins are in it. If
files are missing, Maven itself builds a copy of the project once with network, into a folder of
its own, and only files with the right checksum are taken over from there. Mirrors and logins are
those of Maven's settings. The jar is then built offline, from these files alone. ``--lock`` writes
the lock anew, with network.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

GOALS = ("compiler:compile", "compiler:testCompile", "jar:jar")
LOCK = "maven.lock"
BUILD_TIMEOUT_S = 900


class MavenError(Exception):
    """A file could not be fetched or is not the expected one, or the build failed."""


@dataclass(frozen=True)
class LockedFile:
    """One line of the lock."""

    sha256: str
    path: str
    """Path in a Maven repository."""

    def is_in(self, repository: Path) -> bool:
        """Whether the repository has it, with the right content."""
        file = repository / self.path
        return file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() == self.sha256


def read_lock(lock: Path) -> list[LockedFile]:
    """The files of a lock.

    Raises:
        MavenError: a line is not a checksum and a relative path.
    """
    lines = (line.strip() for line in lock.read_text(encoding="utf-8").splitlines())
    return [_parse(line, lock) for line in lines if line and not line.startswith("#")]


def _parse(line: str, lock: Path) -> LockedFile:
    fields = line.split()
    parts = PurePosixPath(fields[-1]).parts
    if len(fields) != 2 or len(fields[0]) != 64 or ".." in parts or parts[0] == "/":
        raise MavenError(f"{lock}: not 'sha256 path': {line}")
    return LockedFile(*fields)


def fetch_missing(
    files: Sequence[LockedFile], repository: Path, fetch: Callable[[Path], None]
) -> None:
    """Fetch the files that the repository lacks; none is left there that is incomplete or wrong.

    Args:
        files: the lines of the lock.
        repository: where checked files are kept.
        fetch: fills a new folder with the files, from the network.

    Raises:
        MavenError: a file is not the expected one, or could not be fetched.
    """
    missing = [file for file in files if not file.is_in(repository)]
    if not missing:
        return
    print(f"fetching {len(missing)} files with Maven", flush=True)
    with tempfile.TemporaryDirectory(prefix="maven-") as folder:
        fetched = Path(folder)
        fetch(fetched)
        for file in missing:
            _check(file, fetched)
        for file in missing:
            _take_over(file, fetched, repository)


def fetch_with_maven(project: Path, folder: Path) -> None:
    """Fill a folder with what Maven needs to build a project.

    A copy of the project is built, so that nothing made before the check stays in the project.
    """
    with tempfile.TemporaryDirectory(prefix="maven-project-") as work:
        copy = Path(work) / project.name
        shutil.copytree(project, copy, ignore=shutil.ignore_patterns("target"))
        build(copy, folder, offline=False)


def _check(file: LockedFile, fetched: Path) -> None:
    path = fetched / file.path
    actual = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "missing"
    if actual != file.sha256:
        raise MavenError(
            f"{file.path} is refused: its sha256 is {actual}, expected {file.sha256}. Nothing was "
            "installed. Check the mirrors in Maven's settings, then run again."
        )


def _take_over(file: LockedFile, fetched: Path, repository: Path) -> None:
    target = repository / file.path
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.copyfile(fetched / file.path, part)
    part.replace(target)


def build(project: Path, repository: Path, *, offline: bool = True) -> None:
    """Run Maven's goals in a project.

    Raises:
        MavenError: there is no Maven or no compiler, or the build failed.
    """
    maven = shutil.which("mvn")
    if maven is None or shutil.which("javac") is None:
        raise MavenError(
            "Maven and a JDK are needed to build the jar; to fix it: install both (on Debian: "
            "apt-get install maven openjdk-17-jdk-headless)"
        )
    command = [
        maven, "--batch-mode", "--quiet", *(["--offline"] if offline else []),
        f"-Dmaven.repo.local={repository}", "--file", str(project / "pom.xml"), *GOALS,
    ]  # fmt: skip
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise MavenError(f"Maven did not end within {BUILD_TIMEOUT_S} s: run again") from error
    if answer.returncode != 0:
        output = (answer.stdout + answer.stderr).splitlines()
        raise MavenError("Maven failed:\n" + "\n".join(f"  {line}" for line in output[-25:]))


def write_lock(project: Path, lock: Path) -> None:
    """Build with network into an empty repository, and note every file that Maven fetched."""
    with tempfile.TemporaryDirectory(prefix="maven-") as folder:
        repository = Path(folder)
        build(project, repository, offline=False)
        found = sorted(f for kind in ("jar", "pom") for f in repository.rglob(f"*.{kind}"))
        lines = [
            f"{hashlib.sha256(file.read_bytes()).hexdigest()} {file.relative_to(repository)}"
            for file in found
        ]
    lock.write_text(
        "# What Maven needs to build this project: sha256, path in a Maven repository. Written by\n"
        f"# python -m tools.maven_build {project} --lock\n" + "\n".join(lines) + "\n",
        encoding="utf-8",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("project", type=Path, help="folder with pom.xml and maven.lock")
    parser.add_argument("--repository", type=Path, default=Path(".ballast/maven"))
    parser.add_argument("--lock", action="store_true", help="write maven.lock anew, with network")
    options = parser.parse_args(arguments)
    lock = options.project / LOCK
    try:
        if options.lock:
            write_lock(options.project, lock)
            return 0
        fetch_missing(
            read_lock(lock), options.repository.absolute(),
            partial(fetch_with_maven, options.project),
        )  # fmt: skip
        build(options.project, options.repository.absolute())
    except (MavenError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
