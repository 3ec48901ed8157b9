"""The noise of loads and of traffic, estimated on Spark with the functions of ``solvers.noise``.

Three steps over the windows that count: the sums of nodes in each window come to the driver; a
first pass over all key groups finds what they have in common; a second pass computes the noise of
each. Both passes run where the rows are, on arrays of one batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from solvers.model.problem import FloatArray
from solvers.noise.noise_estimate import (
    NoiseModel,
    ResourceNoise,
    key_group_noise,
    noise_model,
    resource_noise,
)
from solvers.noise.window_moments import (
    MomentSums,
    WindowFactors,
    key_group_moments,
    moment_sums,
    window_factors,
)
from spark_jobs.snapshot.loads import ENDS, LOADS, key_group_loads, traffic_rates
from spark_jobs.snapshot.window_rows import in_windows

WINDOWS, WINDOW = "loads_of_windows", "window"
"""Column with the loads of one key group, or of one edge, in all windows; and its field with the
number of the window."""
SUMS_DDL = "name string, sums array<double>"
Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class NoiseColumnNames:
    """The columns of a snapshot that hold the noise of one load."""

    window_sd: str
    mean_error: str


KEY_GROUP_NOISE: Mapping[str, NoiseColumnNames] = {
    "cpu": NoiseColumnNames("cpu_window_sd_cores", "cpu_mean_error_cores"),
    "network": NoiseColumnNames(
        "network_window_sd_bytes_per_s", "network_mean_error_bytes_per_s"
    ),
}  # fmt: skip
"""By resource; the resources are those of snapshots.noise."""
TRAFFIC_NOISE: Mapping[str, NoiseColumnNames] = {
    "records": NoiseColumnNames("records_window_sd_per_s", "records_mean_error_per_s")
}


@dataclass(frozen=True)
class LoadsWithNoise:
    """Rows of snapshots.key_groups with their noise, and the noise of each resource."""

    rows: DataFrame
    resources: Sequence[ResourceNoise]


@dataclass(frozen=True, eq=False)
class _CommonNoise:
    """What all key groups have in common, for one load."""

    windows: WindowFactors
    common: NoiseModel


def key_group_loads_with_noise(
    good: DataFrame, windows: Sequence[datetime], window_s: float
) -> LoadsWithNoise:
    """Mean load of each key group, and how far it may be off.

    Args:
        good: rows of metrics.key_groups.
        windows: ends of the windows that count, oldest first.
        window_s: length of a window.
    """
    values = _loads_in_window(window_s)
    busy = fn.count_if(fn.col("records") > 0).alias("busy_windows")
    packed = key_group_loads(
        good, windows, window_s, busy, _in_all_windows(values, windows)
    ).persist()
    factors = _factors(in_windows(good, windows), "node_id", values, windows)
    models = _models(packed, factors)
    rows = _with_noise(packed, (*LOADS, "busy_windows"), models, KEY_GROUP_NOISE).persist()
    totals = _total_variances(rows, KEY_GROUP_NOISE)
    return LoadsWithNoise(
        rows,
        [
            resource_noise(name, model.windows, model.common, totals[name])
            for name, model in models.items()
        ],
    )


def traffic_rates_with_noise(
    good: DataFrame, windows: Sequence[datetime], window_s: float
) -> DataFrame:
    """Mean rates between key groups, and how far they may be off.

    Args:
        good: rows of metrics.traffic.
        windows: ends of the windows that count, oldest first.
        window_s: length of a window.
    """
    values = {"records": fn.col("records") / fn.lit(window_s)}
    packed = traffic_rates(good, windows, window_s, _in_all_windows(values, windows)).persist()
    # What all edges have in common is the total of a window; edges are on no node.
    factors = _factors(in_windows(good, windows), fn.lit("all"), values, windows)
    columns = (*ENDS, "records_per_s", "bytes_per_s")
    return _with_noise(packed, columns, _models(packed, factors), TRAFFIC_NOISE).persist()


def _loads_in_window(window_s: float) -> dict[str, Column]:
    """The loads of a row of metrics.key_groups, by resource."""
    network = fn.col("bytes_in") + fn.col("bytes_out")
    return {
        "cpu": fn.col("cpu_ms") / fn.lit(1000 * window_s),
        "network": network / fn.lit(window_s),
    }


def _in_all_windows(values: Mapping[str, Column], windows: Sequence[datetime]) -> Column:
    """An aggregate: the values of a group's rows, each with the number of its window."""
    number = fn.array_position(fn.array(*map(fn.lit, windows)), fn.col("window_end_at")) - 1
    fields = [value.cast("double").alias(name) for name, value in values.items()]
    return fn.collect_list(fn.struct(number.alias(WINDOW), *fields)).alias(WINDOWS)


def _factors(
    rows: DataFrame,
    node: str | Column,
    values: Mapping[str, Column],
    windows: Sequence[datetime],
) -> dict[str, WindowFactors]:
    """What windows have in common, from the sums of nodes: few rows, one for a node and window."""
    sums = [fn.sum(value).cast("double").alias(name) for name, value in values.items()]
    nodes = fn.col(node) if isinstance(node, str) else node
    found = rows.groupBy(nodes.alias("node"), "window_end_at").agg(*sums).toArrow()
    row = found["node"].combine_chunks().dictionary_encode()
    number = {end: n for n, end in enumerate(windows)}
    column = np.array([number[end] for end in found["window_end_at"].to_pylist()], dtype=np.int64)
    factors = {}
    for name in values:
        loads = np.zeros((len(row.dictionary), len(windows)))
        loads[row.indices.to_numpy(), column] = found[name].to_numpy()
        factors[name] = window_factors(loads)
    return factors


def _models(packed: DataFrame, factors: Mapping[str, WindowFactors]) -> dict[str, _CommonNoise]:
    """The first pass: one row of sums for each load comes from each partition."""
    found = packed.select(WINDOWS).mapInArrow(partial(_sums_of_batches, factors), SUMS_DDL)
    total = dict.fromkeys(factors, MomentSums())
    for row in found.toArrow().to_pylist():
        total[row["name"]] += MomentSums(*row["sums"])
    return {name: _CommonNoise(of, noise_model(total[name], of)) for name, of in factors.items()}


def _sums_of_batches(factors: Mapping[str, WindowFactors], batches: Batches) -> Batches:
    """Sums of the moments of key groups, by load."""
    total = dict.fromkeys(factors, MomentSums())
    for batch in batches:
        for name, windows in factors.items():
            loads = loads_of_windows(batch.column(WINDOWS), name, windows.windows)
            total[name] += moment_sums(key_group_moments(loads, windows))
    rows = [{"name": name, "sums": sums.values} for name, sums in total.items()]
    schema = pa.schema([("name", pa.string()), ("sums", pa.list_(pa.float64()))])
    yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _with_noise(
    packed: DataFrame,
    columns: Sequence[str],
    models: Mapping[str, _CommonNoise],
    names: Mapping[str, NoiseColumnNames],
) -> DataFrame:
    """The second pass: the rows with columns of noise in the place of the loads of windows."""
    kept = packed.select(*columns, WINDOWS)
    types = [f"`{field.name}` {field.dataType.simpleString()}" for field in kept.schema][:-1]
    added = [f"{column} double" for of in names.values() for column in vars(of).values()]
    add = partial(_noise_of_batches, models, names)
    return kept.mapInArrow(add, ", ".join([*types, *added]))


def _noise_of_batches(
    models: Mapping[str, _CommonNoise], names: Mapping[str, NoiseColumnNames], batches: Batches
) -> Batches:
    """Batches with the noise of each row; NULL where it is not known."""
    for batch in batches:
        found = {
            name: batch.column(name) for name in batch.schema.names if name != WINDOWS
        }  # fmt: skip
        for name, model in models.items():
            loads = loads_of_windows(batch.column(WINDOWS), name, model.windows.windows)
            noise = key_group_noise(key_group_moments(loads, model.windows), model.common)
            found[names[name].window_sd] = _nullable(noise.window_sd)
            found[names[name].mean_error] = _nullable(noise.mean_error)
        yield pa.RecordBatch.from_arrays(list(found.values()), names=list(found))


def loads_of_windows(packed: Any, name: str, windows: int) -> FloatArray:
    """[G, W]: the loads of each row in each window; 0 for a window without the row.

    Args:
        packed: an Arrow list of structs for each row: the number of a window, and loads by name.
        name: the load.
        windows: number of windows.
    """
    flat = packed.flatten()
    row = np.repeat(np.arange(len(packed)), packed.value_lengths().to_numpy(zero_copy_only=False))
    loads = np.zeros((len(packed), windows))
    loads[row, flat.field(WINDOW).to_numpy(zero_copy_only=False)] = flat.field(name).to_numpy(
        zero_copy_only=False
    )
    return loads


def _nullable(values: FloatArray) -> pa.Array:
    """An array with NULL for NaN."""
    return pa.array(values, pa.float64(), from_pandas=True)


def _total_variances(rows: DataFrame, names: Mapping[str, NoiseColumnNames]) -> dict[str, float]:
    """Sum of the variances of all rows, by load."""
    sums = [
        fn.coalesce(fn.sum(fn.col(of.window_sd) ** 2), fn.lit(0.0)).alias(name)
        for name, of in names.items()
    ]
    (row,) = rows.agg(*sums).collect()
    return {name: float(row[name]) for name in names}
