"""The walks of one metric row in docs/architecture.md name real files, each once."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FILES, FILES_OF_NOISE = 44, 12
ROW = re.compile(r"^\| (\d+) \| `([^`]+)` \| \S.* \|$", re.MULTILINE)


def walks() -> list[list[tuple[int, str]]]:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.split("## The walk of one metric row")[1].split("\n## ")[0]
    tables = section.split("| | file | what it does |")[1:]
    return [[(int(number), path) for number, path in ROW.findall(table)] for table in tables]


def test_every_file_of_the_walks_exists() -> None:
    paths = [path for walk in walks() for _, path in walk]
    assert [path for path in paths if not (ROOT / path).is_file()] == []


def test_no_file_is_in_the_walks_twice() -> None:
    paths = [path for walk in walks() for _, path in walk]
    assert len(paths) == len(set(paths))


def test_the_walks_are_numbered_and_no_longer_than_they_were() -> None:
    for walk in walks():
        assert [number for number, _ in walk] == list(range(1, len(walk) + 1))
    assert [len(walk) for walk in walks()] == [FILES, FILES_OF_NOISE]
