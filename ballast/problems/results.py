"""A result folder: assignment.parquet and result.json, written by one rename."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ballast.contracts.errors import ProblemError
from ballast.problems.columns import Columns
from ballast.problems.folder import read_json

ASSIGNMENT = "assignment.parquet"
RESULT = "result.json"
FILES = frozenset({ASSIGNMENT, RESULT})


@dataclass(frozen=True, eq=False, slots=True)
class ResultFolder:
    """The content of a result folder. ``assignment`` is (key_group_id, node_id), or None.

    The columns are unchecked, because the verifier reports their faults.
    """

    figures: Mapping[str, Any]
    assignment: tuple[list[str | None], list[str | None]] | None


def write_result(
    out: str | Path, figures: Mapping[str, Any], assignment: tuple[pa.Array, pa.Array] | None
) -> None:
    """Write the folder under a temporary name and rename it, so readers see all of it or nothing.

    Args:
        out: The folder; an older result folder there is replaced.
        figures: The content of result.json.
        assignment: Columns of key groups and nodes; None if there is no plan.

    Raises:
        ProblemError: ``out`` is something other than a result folder.
    """
    target = Path(out)
    check_target(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        draft.chmod(0o755)
        text = json.dumps(dict(figures), indent=2, allow_nan=False) + "\n"
        (draft / RESULT).write_text(text, encoding="utf-8")
        if assignment is not None:
            columns = {"key_group_id": assignment[0], "node_id": assignment[1]}
            pq.write_table(pa.table(columns), draft / ASSIGNMENT)
        _put_in_place(draft, target)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def check_target(target: str | Path) -> None:
    """Raise ``ProblemError`` if the target is something other than a result folder."""
    path = Path(target)
    if not path.exists() and not path.is_symlink():
        return
    if not path.is_dir() or path.is_symlink():
        raise ProblemError(f"{path} exists and is not a folder", remedy="choose another --out")
    content = {entry.name for entry in path.iterdir()}
    if content and (RESULT not in content or content - FILES):
        raise ProblemError(
            f"{path} has something other than a result: {sorted(content - FILES)[:3]}",
            remedy="choose another --out, or remove it",
        )


def _put_in_place(draft: Path, target: Path) -> None:
    """Rename the draft to the target; a target with files is renamed first, and removed."""
    if not target.exists() or not any(target.iterdir()):
        os.replace(draft, target)
        return
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.old.", dir=target.parent))
    os.replace(target, aside)
    os.replace(draft, target)
    shutil.rmtree(aside, ignore_errors=True)


def read_result(folder: str | Path) -> ResultFolder:
    """Read a result folder. The verifier checks figures and rows.

    Raises:
        ProblemError: A file is missing or cannot be read.
    """
    root = Path(folder)
    if not root.is_dir():
        raise ProblemError(f"{root} is not a folder", remedy="give what `ballast solve` wrote")
    figures = read_json(root / RESULT)
    path = root / ASSIGNMENT
    return ResultFolder(figures, _read_assignment(path) if path.exists() else None)


def _read_assignment(path: Path) -> tuple[list[str | None], list[str | None]]:
    file = Columns(path)
    ids, nodes = (_names(file, name) for name in ("key_group_id", "node_id"))
    return ids, nodes


def _names(file: Columns, name: str) -> list[str | None]:
    try:
        return list(file.raw(name).cast(pa.string()).to_pylist())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ProblemError(f"{file.file}: column {name!r} has values that are not names") from error
