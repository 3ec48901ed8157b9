"""Only modules of the pipeline that are named for it read and write Delta tables."""

from __future__ import annotations

import ast
from fnmatch import fnmatch
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[3] / "spark_jobs"
ACCESS = ("ballast.store.tables", "deltalake", "delta.tables", "spark_jobs.warehouse.spark_tables")
"""Modules with functions that read and write tables."""
NAMED_FOR_IT = (
    "*_tables", "*lookup", "heads", "*_state", "*_facts", "*_cleanup", "delta_vacuum",
    "derived_snapshot", "plan_log",
)  # fmt: skip


def imported_modules(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    plain = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
    return {name for name in names if name} | {a.name for node in plain for a in node.names}


def test_only_modules_that_are_named_for_it_read_or_write_tables() -> None:
    accessing = [path for path in FOLDER.rglob("*.py") if imported_modules(path) & set(ACCESS)]
    others = [
        path.relative_to(FOLDER).as_posix()
        for path in accessing
        if not any(fnmatch(path.stem, pattern) for pattern in NAMED_FOR_IT)
    ]
    assert accessing
    assert sorted(others) == []
