"""Prepares a clone so that it then works without network: Java, ``.venv``, Delta's jars.

Run through ``make setup``. Safe to interrupt, to repeat and to run twice at once; a second run
with nothing to do only compares checksums.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from embedded.java import java_problem
from tools import jars

ROOT = Path(__file__).resolve().parent.parent
JAVA_PACKAGE = "openjdk-17-jre-headless"
KEY_FILES = (
    "requirements.lock",
    "pyproject.toml",
    "tools/bootstrap.lock",
    "tools/delta-jars.lock",
    "tools/jars.py",
    "tools/setup.py",
    "tools/setup.sh",
)


class SetupError(Exception):
    """Set-up cannot continue; the message says what to do."""


def print_progress(line: str) -> None:
    print(f"setup: {line}", flush=True)


def key_of(root: Path) -> str:
    """Hash of everything that the installed environment depends on, its path included."""
    digest = hashlib.sha256(str(root).encode())
    for name in KEY_FILES:
        digest.update(name.encode())
        digest.update((root / name).read_bytes())
    return digest.hexdigest()


def jars_folder(env: Mapping[str, str], root: Path) -> Path:
    """The jars folder of ``ballast.contracts.settings``, known before anything is installed."""
    home = root / env.get("BALLAST_HOME", ".ballast")
    return root / env.get("BALLAST_JARS", str(home / "jars"))


class VirtualEnvironment:
    """The virtual environment of a checkout, and the two marks that say how far it got.

    ``stamp`` holds the key of a finished set-up. ``whole`` holds the checkout's path and is
    absent while packages are being changed: an environment without it was interrupted.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / ".venv"
        self.python = self.folder / "bin" / "python"
        self.uv = self.folder / "bin" / "uv"
        self.stamp = self.folder / "ballast-setup.key"
        self.whole = self.folder / "ballast-setup.whole"

    def is_current(self) -> bool:
        return _text(self.stamp) == key_of(self.root) and self.python.exists()

    def is_whole(self) -> bool:
        """Whether it was completed and not moved; its scripts contain its path."""
        return _text(self.whole) == str(self.root) and _runs([str(self.python), "-c", ""])

    def make(self) -> None:
        """Creates the folder and its Python; what an interrupted run left is replaced."""
        if self.is_whole():
            return
        print_progress("creating .venv")
        shutil.rmtree(self.folder, ignore_errors=True)
        # Started from inside an environment, take the Python behind it.
        base = getattr(sys, "_base_executable", None) or sys.executable
        run([base, "-m", "venv", str(self.folder)], "install the venv module of your Python")

    def bring_uv(self) -> None:
        """Install the pinned uv with pip, unless there is a uv that runs."""
        if _runs([str(self.uv), "--version"]):
            return
        print_progress("installing uv")
        lock = self.root / "tools" / "bootstrap.lock"
        install = [str(self.python), "-m", "pip", "install", "--quiet"]
        run(
            [*install, "--require-hashes", "--requirement", str(lock)],
            "check the network and pip's index settings",
        )

    def install(self) -> None:
        """Make the packages exactly those of the lock, then add the checkout itself."""
        to_python = ["--python", str(self.python)]
        # Compiled once here: Airflow starts in half the time, also where Python may not write.
        sync = [str(self.uv), "pip", "sync", *to_python, "--quiet", "--compile-bytecode"]
        install = [str(self.uv), "pip", "install", *to_python, "--quiet", "--offline", "--no-deps"]
        self.whole.unlink(missing_ok=True)
        print_progress("installing the packages of requirements.lock (takes a minute or two)")
        run(
            [*sync, "--require-hashes", "requirements.lock"],
            "check the network (uv takes its index from UV_DEFAULT_INDEX)",
            cwd=self.root,
        )
        print_progress("installing the checkout itself (editable)")
        run(
            [*install, "--no-build-isolation", "--editable", "."],
            "check pyproject.toml",
            cwd=self.root,
        )
        self.whole.write_text(str(self.root), encoding="utf-8")

    def finish(self) -> None:
        self.stamp.write_text(key_of(self.root), encoding="utf-8")


def _text(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8")
    except OSError:
        return None


def _runs(command: Sequence[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def run(command: Sequence[str], remedy: str, cwd: Path | None = None) -> None:
    """Runs a step; its failure ends set-up, and its output has the details."""
    try:
        code = subprocess.run(command, check=False, cwd=cwd).returncode
    except OSError as error:
        raise SetupError(f"{command[0]} does not run: {error}; {remedy}") from error
    if code != 0:
        raise SetupError(f"'{' '.join(command[:4])} ...' ended with {code}; {remedy}")


def ensure_java() -> None:
    """Checks for a Java that Spark runs on; installs Debian's as root on Debian."""
    problem = java_problem()
    if problem is None:
        return
    if os.environ.get("JAVA_HOME") or not _may_install():
        raise SetupError(f"{problem}\n{java_advice()}")
    print_progress(f"{problem}: installing {JAVA_PACKAGE}")
    run(["apt-get", "update", "--quiet"], "check the network and the apt sources")
    run(
        ["apt-get", "install", "--quiet", "--yes", "--no-install-recommends", JAVA_PACKAGE],
        "install Java 17 or 21 yourself",
    )
    problem = java_problem()
    if problem:
        raise SetupError(f"{problem}\n{java_advice()}")


def _may_install() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def java_advice() -> str:
    return (
        "Do one of these, then run make setup again:\n"
        f"  Debian, Ubuntu:  sudo apt-get install {JAVA_PACKAGE}\n"
        "  elsewhere:       install Java 17 or 21 and point JAVA_HOME at it"
    )


def ensure_jars(environment: VirtualEnvironment, folder: Path) -> None:
    """Fetches the jars with the environment's Python, because Ivy is inside pyspark."""
    lock = environment.root / "tools" / "delta-jars.lock"
    if not jars.missing(jars.read_lock(lock), folder):
        return
    print_progress(f"fetching Delta's jars into {folder}")
    run(
        [str(environment.python), "-B", "-m", "tools.jars", str(lock), str(folder)],
        "see the message above",
        cwd=environment.root,
    )


@contextmanager
def one_at_a_time(root: Path) -> Iterator[None]:
    """Holds the lock of the clone's set-up; the kernel frees it when this process ends."""
    # The lock is on the clone's folder, so that there is no lock file to remove.
    descriptor = os.open(root / "tools", os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print_progress("another set-up of this checkout is under way: waiting for it")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def set_up(root: Path, env: Mapping[str, str]) -> None:
    """Does the steps of set-up that are not done yet."""
    environment = VirtualEnvironment(root)
    ensure_java()
    if not environment.is_current():
        environment.stamp.unlink(missing_ok=True)
        environment.make()
        environment.bring_uv()
        environment.install()
        environment.finish()
    ensure_jars(environment, jars_folder(env, root))
    compile_loops(environment)


def compile_loops(environment: VirtualEnvironment) -> None:
    """Fills numba's cache, so that the first solve does not wait for the compiler (ADR 14)."""
    mark = environment.folder / "ballast-loops.key"
    key = loops_key(environment.root)
    if mark.exists() and mark.read_text() == key:
        return
    print_progress("compiling the solvers' loops, about a minute")
    # numba checks only the file of a function, but inlined code may be from another file.
    for stale in environment.root.glob("solvers/rebalance/**/__pycache__/*.nb[ic]"):
        stale.unlink()
    run(
        [
            str(environment.python),
            "-c",
            "from solvers.rebalance.compile_kernels import main; main()",
        ],
        "see the message above",
        cwd=environment.root,
    )
    mark.write_text(loops_key(environment.root))


def loops_key(root: Path) -> str:
    """What the compiled loops depend on: the sources, and the existence of the cache."""
    folder = root / "solvers" / "rebalance"
    sources = [
        f"{file.relative_to(folder)} {hashlib.sha256(file.read_bytes()).hexdigest()}"
        for file in sorted(folder.rglob("*.py"))
    ]
    cached = sorted(file.name for file in folder.rglob("__pycache__/*.nbi"))
    return hashlib.sha256("\n".join([key_of(root), *sources, *cached]).encode()).hexdigest()


def main() -> int:
    started = time.monotonic()
    try:
        with one_at_a_time(ROOT):
            set_up(ROOT, os.environ)
    except (SetupError, jars.JarError, OSError) as error:
        print(f"setup: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("setup: interrupted; run it again to continue", file=sys.stderr)
        return 130
    print_progress(f"ready ({time.monotonic() - started:.1f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
