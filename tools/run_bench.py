"""Lists the programs in ``bench/`` and runs the named one, or the quick one.

The quick one makes a problem of 200 key groups on 10 nodes, solves it and verifies the result.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
QUICK = "quick"
# Tools of the benchmarks rather than benchmarks.
NOT_PROGRAMS = {"__init__", "make_problem"}


def programs() -> dict[str, str]:
    """Name and first line of the docstring of every benchmark."""
    files = sorted((ROOT / "bench").glob("*.py"))
    found = {file.stem: _first_line(file) for file in files if file.stem not in NOT_PROGRAMS}
    return {QUICK: "Make, solve and verify a problem of 200 key groups on 10 nodes.", **found}


def _first_line(file: Path) -> str:
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return text.splitlines()[0] if text else ""


def quick_steps(folder: Path) -> list[list[str]]:
    ballast = str(Path(sys.executable).parent / "ballast")
    problem, out = str(folder / "problem"), str(folder / "out")
    size = ["--key-groups", "200", "--nodes", "10", "--moves", "20", "--seed", "1"]
    return [
        [sys.executable, "bench/make_problem.py", *size, "--out", problem],
        [ballast, "solve", problem, "--method", "auto", "--seconds", "5", "--out", out],
        [ballast, "verify", problem, out],
    ]


def run_quick() -> int:
    with tempfile.TemporaryDirectory() as work:
        for step in quick_steps(Path(work)):
            code = run(step)
            if code != 0:
                return code
    return 0


def run(command: list[str]) -> int:
    """Run one step, with its time."""
    started = time.monotonic()
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    words = " ".join(Path(word).name for word in command[:3])
    print(f"bench: {words}: exit {code}, {time.monotonic() - started:.1f} s", flush=True)
    return code


def main(arguments: Sequence[str] | None = None) -> int:
    wanted = list(sys.argv[1:] if arguments is None else arguments) or [QUICK]
    known = programs()
    for name, line in known.items():
        print(f"  make bench BENCH={name:<24} {line}")
    unknown = [name for name in wanted if name not in known]
    if unknown:
        print(f"error: no such benchmark: {' '.join(unknown)}", file=sys.stderr)
        return 2
    codes = [
        run_quick() if name == QUICK else run([sys.executable, "-m", f"bench.{name}"])
        for name in wanted
    ]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
