"""Seeds come from the commit's hash, unless a seed base is given."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]


def commit() -> str:
    """The commit's hash; 0 where there is none."""
    command = ["git", "rev-parse", "HEAD"]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    return done.stdout.strip() or "0"


def base_of(text: str) -> int:
    """A seed base from a hash or another hexadecimal number."""
    return int(text[:16], 16)


def seed_of(seed_base: int, name: str, index: int) -> int:
    """The seed of the index-th instance of a setting, of 31 bits."""
    entropy = [seed_base, int.from_bytes(name.encode(), "big"), index]
    return int(np.random.SeedSequence(entropy).generate_state(1)[0]) % 2**31
