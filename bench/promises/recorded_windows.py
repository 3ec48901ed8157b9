"""Windows recorded from a running job as a small file, and their export from a warehouse."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ballast.contracts.settings import Settings
from ballast.store.tables import read_rows
from solvers.model.problem import FloatArray, IntArray

DATA = Path(__file__).parent / "data"
NAMES = ("quiet", "loaded")
SKIPPED = 3
"""Windows at the start, during which the job compiles code and fills its state."""


@dataclass(frozen=True, eq=False)
class RecordedWindows:
    """What the key groups of a job did, window by window."""

    operator_ids: np.ndarray  # [G]
    key_groups: IntArray  # [G]
    node_of: IntArray  # [G]
    window_s: float
    cpu_ms: FloatArray  # [G, W]
    wire_ms: FloatArray  # [G, W]
    records: IntArray  # [G, W]
    bytes: IntArray  # [G, W], in and out
    state_bytes: IntArray  # [G], in the last window
    traffic_from: IntArray  # [E]
    traffic_to: IntArray  # [E]
    traffic_records: IntArray  # [E], in all windows

    @property
    def nodes(self) -> int:
        return int(self.node_of.max()) + 1

    @property
    def windows(self) -> int:
        return self.cpu_ms.shape[1]

    def save(self, path: Path) -> None:
        """Write a compressed file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        np.savez_compressed(path, **_small(values))  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: Path) -> RecordedWindows:
        """Read a file that :meth:`save` wrote."""
        with np.load(path) as found:
            values = {name: found[name] for name in found.files}
        values["window_s"] = float(values["window_s"])
        for name, value in values.items():
            if isinstance(value, np.ndarray) and value.dtype.kind == "f":
                values[name] = value.astype(np.float64)
            elif isinstance(value, np.ndarray) and value.dtype.kind in "iu":
                values[name] = value.astype(np.int64)
        return cls(**values)


def _small(values: dict[str, object]) -> dict[str, object]:
    """Round numbers to six digits: a measured time has no more."""
    return {
        name: value.astype(np.float32)
        if isinstance(value, np.ndarray) and value.dtype == np.float64
        else value
        for name, value in values.items()
    }


def recording(name: str) -> RecordedWindows:
    """One of the recordings of this folder."""
    return RecordedWindows.load(DATA / f"{name}.npz")


def windows_of_warehouse(settings: Settings, job: str, *, windows: int) -> RecordedWindows:
    """The windows of a job in a warehouse, without the first ones and at most so many."""
    rows = read_rows(settings, "metrics.key_groups", job=job)
    ends = pc.unique(rows["window_end_at"]).sort()[SKIPPED : SKIPPED + windows]
    rows = rows.filter(pc.is_in(rows["window_end_at"], value_set=ends))
    rows = rows.sort_by(
        [(name, "ascending") for name in ("operator_id", "key_group", "window_end_at")]
    )
    count = len(ends)
    if rows.num_rows % count:
        raise ValueError("a key group did not report in every window; record again")
    first = rows.take(pa.array(range(0, rows.num_rows, count)))
    last = rows.take(pa.array(range(count - 1, rows.num_rows, count)))
    nodes = sorted(set(first["node_id"].to_pylist()))
    at = rows["window_end_at"][0].as_py() - rows["window_start_at"][0].as_py()
    traffic = _traffic(settings, job, ends, first)
    return RecordedWindows(
        operator_ids=np.array(first["operator_id"].to_pylist()),
        key_groups=first["key_group"].to_numpy(),
        node_of=np.array([nodes.index(node) for node in first["node_id"].to_pylist()]),
        window_s=at.total_seconds(),
        cpu_ms=_matrix(rows["cpu_ms"], count),
        wire_ms=_matrix(rows["wire_ms"], count),
        records=_matrix(rows["records"], count),
        bytes=_matrix(pc.add(rows["bytes_in"], rows["bytes_out"]), count),
        state_bytes=last["state_bytes"].to_numpy(),
        traffic_from=traffic[0],
        traffic_to=traffic[1],
        traffic_records=traffic[2],
    )


def _matrix(column: pa.ChunkedArray, windows: int) -> np.ndarray:
    return np.asarray(column.to_numpy().reshape(-1, windows))


def _traffic(
    settings: Settings, job: str, ends: pa.Array, groups: pa.Table
) -> tuple[IntArray, IntArray, IntArray]:
    """Senders, receivers and records of all windows together."""
    rows = read_rows(settings, "metrics.traffic", job=job)
    rows = rows.filter(pc.is_in(rows["window_end_at"], value_set=ends))
    names = ["from_operator_id", "from_key_group", "to_operator_id", "to_key_group"]
    sums = rows.group_by(names).aggregate([("records", "sum")])
    sums = sums.sort_by([(name, "ascending") for name in names])
    pairs = zip(groups["operator_id"].to_pylist(), groups["key_group"].to_pylist(), strict=True)
    row_of = {pair: row for row, pair in enumerate(pairs)}
    found = [
        [
            row_of[pair]
            for pair in zip(
                sums[f"{end}_operator_id"].to_pylist(), sums[f"{end}_key_group"].to_pylist(),
                strict=True,
            )
        ]
        for end in ("from", "to")
    ]  # fmt: skip
    return np.array(found[0]), np.array(found[1]), sums["records_sum"].to_numpy()
