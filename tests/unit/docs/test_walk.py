"""The walk of one metric row in docs/architecture.md names real files, each once."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
MOST_FILES = 26
ROW = re.compile(r"^\| (\d+) \| `([^`]+)` \| \S.* \|$", re.MULTILINE)


def walk() -> list[tuple[int, str]]:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.split("## The walk of one metric row")[1].split("\n## ")[0]
    return [(int(number), path) for number, path in ROW.findall(section)]


def test_every_file_of_the_walk_exists() -> None:
    assert [path for _, path in walk() if not (ROOT / path).is_file()] == []


def test_no_file_is_in_the_walk_twice() -> None:
    paths = [path for _, path in walk()]
    assert len(paths) == len(set(paths))


def test_the_walk_is_short_and_numbered() -> None:
    assert [number for number, _ in walk()] == list(range(1, len(walk()) + 1))
    assert 10 < len(walk()) <= MOST_FILES
