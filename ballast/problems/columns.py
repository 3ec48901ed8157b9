"""Reads and checks columns of a Parquet file; every error names file, column and row.

All checks work on whole columns: a file of a million rows takes about a second.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ballast.contracts.errors import ProblemError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


class Columns:
    """The columns of one Parquet file.

    Methods that return a column check it and raise ``ProblemError`` for the first bad value.
    """

    def __init__(self, path: Path) -> None:
        self.file = path.name
        self.table = _read_table(path)
        self.names: list[str] = self.table.column_names

    @property
    def n_rows(self) -> int:
        return int(self.table.num_rows)

    def has(self, name: str) -> bool:
        return name in self.names

    def suffixes(self, prefix: str) -> list[str]:
        """Return the column names with this prefix, without it, in the file's order."""
        return [name[len(prefix) :] for name in self.names if name.startswith(prefix)]

    def raw(self, name: str) -> pa.Array:
        """Return an unchecked column as one chunk."""
        if not self.has(name):
            raise ProblemError(
                f"{self.file}: column {name!r} is missing", allowed=f"has {self.names}"
            )
        if self.names.count(name) > 1:
            raise ProblemError(f"{self.file}: column {name!r} occurs more than once")
        column = self.table.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)

    def text(self, name: str) -> pa.Array:
        """Return a column of names as text; whole numbers are converted."""
        return self.as_text(name, self._without_nulls(name))

    def as_text(self, name: str, values: pa.Array) -> pa.Array:
        """Return the values as text; whole numbers are converted.

        ``name`` is the column for the error if they are neither.
        """
        kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_integer)
        if not any(is_kind(values.type) for is_kind in kinds):
            raise self._wrong_type(name, values, "text")
        return values.cast(pa.string())

    def ids(self, name: str) -> pa.Array:
        """Return a column of names; each must be unique and not empty."""
        column = self.text(name)
        empty = pc.equal(column, "")
        if pc.any(empty).as_py():
            raise ProblemError(f"{self.file}: {name} is empty in row {_first(empty)}")
        counts = pc.value_counts(column)
        if len(counts) != len(column):
            repeated = counts.field("counts").to_numpy(zero_copy_only=False) > 1
            twice = counts.field("values")[int(np.argmax(repeated))].as_py()
            raise ProblemError(f"{self.file}: {name} {twice!r} occurs more than once")
        return column

    def floats(self, name: str, *, above_zero: bool = False) -> FloatArray:
        """Return finite numbers >= 0, or > 0 if ``above_zero``."""
        column = self._without_nulls(name)
        if not (
            pa.types.is_integer(column.type)
            or pa.types.is_floating(column.type)
            or pa.types.is_decimal(column.type)
        ):
            raise self._wrong_type(name, column, "numbers")
        values = np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
        good = np.isfinite(values) & ((values > 0) if above_zero else (values >= 0))
        self._check(name, good, values, "a number > 0" if above_zero else "a number >= 0")
        return values

    def whole_numbers(self, name: str) -> IntArray:
        """Return whole numbers >= 0; 3.0 is converted to 3."""
        column = self._without_nulls(name)
        if pa.types.is_floating(column.type):
            values = column.to_numpy(zero_copy_only=False)
            whole = np.isfinite(values) & (values == np.floor(values)) & (np.abs(values) < 2**63)
            self._check(name, whole, values, "a whole number >= 0")
            numbers = values.astype(np.int64)
        elif pa.types.is_integer(column.type):
            numbers = self._as_int64(name, column)
        else:
            raise self._wrong_type(name, column, "whole numbers")
        self._check(name, numbers >= 0, numbers, "a whole number >= 0")
        return np.asarray(numbers)

    def booleans(self, name: str) -> BoolArray:
        """Return a column of true and false."""
        column = self._without_nulls(name)
        if not pa.types.is_boolean(column.type):
            raise self._wrong_type(name, column, "true or false")
        return np.asarray(column.to_numpy(zero_copy_only=False), dtype=bool)

    def index_of(self, name: str, known: pa.Array, what: str) -> IntArray:
        """Return the position in ``known`` of the name in each row.

        ``what`` describes the known names in the error for an unknown one.
        """
        return self.index_of_values(name, self.text(name), known, what)

    def index_of_values(self, name: str, values: pa.Array, known: pa.Array, what: str) -> IntArray:
        """Return the position in ``known`` of each value of a column."""
        index = pc.index_in(values, value_set=known)
        if index.null_count:
            at = _first(index.is_null())
            raise ProblemError(
                f"{self.file}: {name} {values[at].as_py()!r} is not a {what}", value=at
            )
        return np.asarray(index.to_numpy(zero_copy_only=False), dtype=np.int64)

    def _without_nulls(self, name: str) -> pa.Array:
        column = self.raw(name)
        if column.null_count:
            raise ProblemError(
                f"{self.file}: {name} is missing in row {_first(column.is_null())}",
                remedy="fill it in; a missing value is not zero",
            )
        return column

    def _as_int64(self, name: str, column: pa.Array) -> IntArray:
        try:
            return np.asarray(column.cast(pa.int64()).to_numpy(zero_copy_only=False))
        except pa.ArrowInvalid as error:
            raise ProblemError(f"{self.file}: {name} does not fit 64 bits") from error

    def _check(self, name: str, good: BoolArray, values: Any, allowed: str) -> None:
        if good.all():
            return
        row = int(np.argmin(good))
        raise ProblemError(
            f"{self.file}: {name} is {values[row].item()!r} in row {row}",
            value=values[row].item(),
            allowed=allowed,
        )

    def _wrong_type(self, name: str, column: pa.Array, wanted: str) -> ProblemError:
        return ProblemError(
            f"{self.file}: column {name!r} has the type {column.type}", allowed=wanted
        )


def _read_table(path: Path) -> pa.Table:
    if not path.is_file():
        raise ProblemError(f"{path} is missing", remedy="see docs/solvers.md for the format")
    try:
        return pq.ParquetFile(path).read()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ProblemError(f"{path} cannot be read as Parquet: {_one_line(error)}") from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _first(flags: pa.Array) -> int:
    return int(pc.index(flags, True).as_py())
