"""Runs every check besides the tests; after a failure the next check still runs."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
CHECKS: dict[str, list[str]] = {
    "ruff check": ["ruff", "check", "."],
    "ruff format": ["ruff", "format", "--check", "."],
    "mypy": ["mypy"],
    "lint-imports": ["lint-imports", "--no-logo"],
    "compose file": [
        "check-jsonschema",
        "--builtin-schema",
        "vendor.compose-spec",
        "docker-compose.yml",
    ],
}


def run_check(name: str, command: list[str]) -> bool:
    print(f"== {name}", flush=True)
    started = time.monotonic()
    code = subprocess.run([str(BIN / command[0]), *command[1:]], cwd=ROOT, check=False).returncode
    print(f"   {'ok' if code == 0 else 'FAILED'} ({time.monotonic() - started:.1f} s)", flush=True)
    return code == 0


def main() -> int:
    failed = [name for name, command in CHECKS.items() if not run_check(name, command)]
    print(f"lint: failed: {', '.join(failed)}" if failed else "lint: all checks passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
