"""A class name has one meaning in the whole repository."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (
    "ballast", "bench", "dags", "embedded", "examples", "expectations", "orchestration", "plugins",
    "solvers", "spark_jobs", "tests", "tools",
)  # fmt: skip
CLASS = re.compile(r"^\s*class (\w+)[(:]", re.MULTILINE)


def test_no_class_name_is_defined_twice() -> None:
    places = defaultdict(list)
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            for name in CLASS.findall(path.read_text(encoding="utf-8")):
                places[name].append(path.relative_to(ROOT).as_posix())
    assert len(places) > 500, "the classes of the repository were not found"
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}
