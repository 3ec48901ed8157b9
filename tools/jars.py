"""Fetches the jars named in a lock file, checks each, and moves it into a folder in one step.

Fetched by the Ivy that pyspark ships, so nothing but Java is needed; no transitive jars, because
Spark already has newer ones. ``BALLAST_IVY_SETTINGS`` may name an Ivy settings file (a mirror).
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from embedded.java import java_command, java_problem

FETCH_TIMEOUT_S = 900
# Ivy mostly waits for the repository; each fetch has a cache of its own.
AT_A_TIME = 6


class JarError(Exception):
    """A jar could not be fetched, or its content is not the expected one."""


@dataclass(frozen=True)
class Jar:
    """One line of a jar lock file."""

    sha256: str
    organisation: str
    artifact: str
    version: str

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"

    def __str__(self) -> str:
        return f"{self.organisation}:{self.artifact}:{self.version}"


Fetcher = Callable[[Jar, Path], Path]


def read_lock(lock: Path) -> list[Jar]:
    """Jars of a lock file, one per line that is neither empty nor a comment."""
    lines = (line.strip() for line in lock.read_text(encoding="utf-8").splitlines())
    return [_parse(line, lock) for line in lines if line and not line.startswith("#")]


def _parse(line: str, lock: Path) -> Jar:
    fields = line.split()
    if len(fields) != 4 or len(fields[0]) != 64:
        raise JarError(f"{lock}: not 'sha256 organisation artifact version': {line}")
    return Jar(*fields)


def sha256_of(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def is_in_place(jar: Jar, folder: Path) -> bool:
    file = folder / jar.file_name
    return file.is_file() and sha256_of(file) == jar.sha256


def missing(jars: Iterable[Jar], folder: Path) -> list[Jar]:
    """Jars that are not in the folder, or not with the right content."""
    return [jar for jar in jars if not is_in_place(jar, folder)]


def install(jars: Iterable[Jar], folder: Path, fetch: Fetcher) -> None:
    """Fetches each missing jar into the folder, some at a time; no incomplete file is left."""
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        # All are tried; the first error is raised after the last one has ended.
        for done in [pool.submit(_install, jar, folder, fetch) for jar in missing(jars, folder)]:
            done.result()


def _install(jar: Jar, folder: Path, fetch: Fetcher) -> None:
    print(f"fetching {jar}", flush=True)
    # In the same file system as the target, so that the last step is a rename.
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as work:
        fetched = fetch(jar, Path(work))
        _check(jar, fetched)
        fetched.replace(folder / jar.file_name)


def _check(jar: Jar, fetched: Path) -> None:
    actual = sha256_of(fetched)
    if actual != jar.sha256:
        raise JarError(
            f"{jar} is refused: its sha256 is {actual}, expected {jar.sha256}. "
            "Nothing was installed. Check the repository or mirror it came from, then run again."
        )


def ivy_command(jar: Jar, work: Path, ivy_jar: Path, java: str) -> list[str]:
    """Command that lets Ivy fetch one jar, without its dependencies, into ``work``."""
    settings = os.environ.get("BALLAST_IVY_SETTINGS")
    return [
        *(java, "-jar", str(ivy_jar)),
        *(("-settings", settings) if settings else ()),
        *("-cache", str(work / "cache"), "-notransitive", "-confs", "default", "-warn"),
        *("-dependency", jar.organisation, jar.artifact, jar.version),
        *("-types", "jar", "bundle"),
        *("-retrieve", str(work / "[artifact]-[revision].[ext]")),
    ]


def fetch_with_ivy(jar: Jar, work: Path) -> Path:
    """Let Ivy fetch one jar into ``work``; its output is shown only when it failed."""
    java = java_command()
    problem = java_problem()
    if java is None or problem:
        raise JarError(f"cannot fetch {jar}: {problem}")
    try:
        answer = subprocess.run(
            ivy_command(jar, work, pyspark_ivy(), java),
            capture_output=True,
            text=True,
            timeout=FETCH_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise JarError(f"{jar} did not arrive within {FETCH_TIMEOUT_S} s: run again") from error
    file = work / jar.file_name
    if answer.returncode != 0 or not file.is_file():
        raise JarError(f"Ivy could not fetch {jar}:\n{_tail(answer.stdout + answer.stderr)}")
    return file


def _tail(output: str) -> str:
    # Ivy draws its progress as rows of dots.
    lines = [line for line in output.splitlines() if line.strip(" .")]
    return "\n".join(f"  {line[:300]}" for line in lines[-25:])


def pyspark_ivy() -> Path:
    """The Ivy jar inside the installed pyspark."""
    from importlib.util import find_spec

    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JarError("pyspark is not installed in this environment: run make setup")
    found = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    if not found:
        raise JarError(f"no ivy-*.jar in {Path(spec.origin).parent / 'jars'}")
    return found[-1]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lock", type=Path, help="lock file that names the jars")
    parser.add_argument("folder", type=Path, help="folder to put them into")
    options = parser.parse_args(arguments)
    try:
        install(read_lock(options.lock), options.folder, fetch_with_ivy)
    except (JarError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
