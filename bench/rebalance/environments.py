"""The peers' own Python environments, made from the locks in bench/requirements.

OR-Tools cannot share a process with HiGHS, and Meta's rebalancer needs Python 3.12. Both have
environments of their own and are no dependencies of the project. PuLP's two solvers run in the
project's environment.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STAMP = "ballast-bench.whole"


class NoEnvironment(Exception):
    """A peer's environment cannot be made; the message says what to do."""


@dataclass(frozen=True)
class PeerEnvironment:
    """A folder under .ballast with a Python of the given version and a lock installed in it."""

    name: str
    python: str  # "3.12"

    @property
    def folder(self) -> Path:
        return ROOT / ".ballast" / f"bench-{self.name}"

    @property
    def executable(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def lock(self) -> Path:
        return ROOT / "bench" / "requirements" / f"{self.name}.lock"

    def is_whole(self) -> bool:
        stamp = self.folder / STAMP
        return stamp.exists() and stamp.read_text(encoding="utf-8") == self._digest()

    def make(self) -> None:
        """Create the environment unless it exists as locked."""
        if self.is_whole():
            return
        print(f"bench: making the environment of {self.name} (Python {self.python})", flush=True)
        uv = str(Path(sys.executable).parent / "uv")
        self._run([uv, "venv", "--quiet", "--clear", "--python", self._python(), str(self.folder)])
        install = [uv, "pip", "sync", "--quiet", "--require-hashes"]
        self._run([*install, "--python", str(self.executable), str(self.lock)])
        (self.folder / STAMP).write_text(self._digest(), encoding="utf-8")

    def _digest(self) -> str:
        return hashlib.sha256(self.lock.read_bytes()).hexdigest()

    def _python(self) -> str:
        """Return a Python of this version on this machine, or its number: uv may then download
        one."""
        for candidate in self._candidates():
            if _version_of(candidate) == self.python:
                return candidate
        return self.python

    def _candidates(self) -> list[str]:
        named = os.environ.get(f"PYTHON{self.python.replace('.', '')}")
        on_path = shutil.which(f"python{self.python}")
        # A pyenv shim on the PATH fails unless that version is selected; its real paths work.
        pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
        built = sorted(pyenv.glob(f"{self.python}*/bin/python{self.python}"), reverse=True)
        found = [named, sys.executable, on_path, *map(str, built)]
        return [candidate for candidate in found if candidate]

    def _run(self, command: list[str]) -> None:
        done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
        if done.returncode == 0:
            return
        number = self.python.replace(".", "")
        raise NoEnvironment(
            f"cannot make the environment of {self.name}: {done.stderr.strip()[-2000:]}\n"
            f"It needs Python {self.python}: install one, or name it in PYTHON{number}; and it "
            "needs the package index (uv takes it from UV_DEFAULT_INDEX)."
        )


def _version_of(python: str) -> str | None:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run(
            [python, "-c", code], check=False, capture_output=True, text=True, timeout=30
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


CP_SAT = PeerEnvironment("cp-sat", "3.11")
META = PeerEnvironment("meta", "3.12")


def make_all() -> None:
    for environment in (CP_SAT, META):
        environment.make()
