"""The noise of loads and of traffic, estimated on Spark with the functions of ``solvers.noise``.

Three steps over the windows that count: the sums of nodes in each window come to the driver; a
first pass over all key groups finds what they have in common; a second pass computes the noise of
each. Both passes run where the rows are, on arrays of one batch. The snapshot before is joined to
the rows: noise is estimated over several periods, and its change from period to period counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from solvers.model.problem import BoolArray, FloatArray
from solvers.noise.noise_estimate import (
    EarlierColumns,
    EarlierNodes,
    NoiseModel,
    ResourceNoise,
    earlier_loads,
    jumped_nodes,
    key_group_noise,
    noise_model,
    resource_noise,
)
from solvers.noise.window_moments import (
    EarlierLoads,
    KeyGroupMoments,
    MomentSums,
    WindowFactors,
    key_group_moments,
    moment_sums,
    window_factors,
)
from spark_jobs.snapshot.loads import ENDS, LOADS, key_group_loads, traffic_rates
from spark_jobs.snapshot.window_rows import GROUP, in_windows

WINDOWS, WINDOW = "loads_of_windows", "window"
"""Column with the loads of one key group, or of one edge, in all windows; and its field with the
number of the window."""
SUMS_DDL = "name string, sums array<double>"
Batches = Iterator[pa.RecordBatch]


UNMOVED = "is_where_it_was"
"""Column: the key group is on the node that it was on in the snapshot before."""


@dataclass(frozen=True)
class NoiseColumnNames:
    """The columns of a snapshot that hold the noise of one load."""

    window_sd: str
    mean_error: str
    level: str | None = None
    """The load that is expected from this period and those before; None if it is not stored."""
    level_error: str | None = None

    @property
    def stored(self) -> list[str]:
        """The columns that the snapshot has."""
        return [column for column in vars(self).values() if column is not None]


KEY_GROUP_NOISE: Mapping[str, NoiseColumnNames] = {
    "cpu": NoiseColumnNames(
        "cpu_window_sd_cores", "cpu_mean_error_cores", "cpu_level_cores", "cpu_level_error_cores"
    ),
    "network": NoiseColumnNames(
        "network_window_sd_bytes_per_s",
        "network_mean_error_bytes_per_s",
        "network_level_bytes_per_s",
        "network_level_error_bytes_per_s",
    ),
}
"""By resource; the resources are those of snapshots.noise."""
KEY_GROUP_LOADS = {"cpu": "cpu_load_cores", "network": "network_load_bytes_per_s"}
"""The column of the mean load, by resource."""
TRAFFIC_NOISE: Mapping[str, NoiseColumnNames] = {
    "records": NoiseColumnNames("records_window_sd_per_s", "records_mean_error_per_s")
}


@dataclass(frozen=True)
class LoadsWithNoise:
    """Rows of snapshots.key_groups with their noise, and the noise of each resource."""

    rows: DataFrame
    resources: Sequence[ResourceNoise]


@dataclass(frozen=True)
class EarlierSnapshot:
    """The snapshot before, from which noise is estimated as well."""

    rows: DataFrame
    """Its rows of snapshots.key_groups."""
    resources: Mapping[str, ResourceNoise]
    """Its rows of snapshots.noise, by resource."""
    is_apart: bool
    """Whether its windows all ended before those of this period began."""


@dataclass(frozen=True, eq=False)
class _Period:
    """What the windows of a period have in common for one load, and the snapshot before."""

    windows: WindowFactors
    earlier: ResourceNoise | None = None
    scale: float = 0.0
    """Total load now over total load then."""
    is_apart: bool = False

    def moments(self, batch: pa.RecordBatch, name: str) -> KeyGroupMoments:
        """Moments of the load of each row of a batch."""
        loads = loads_of_windows(batch.column(WINDOWS), name, self.windows.windows)
        return key_group_moments(loads, self.windows, self._earlier(batch, name))

    def _earlier(self, batch: pa.RecordBatch, name: str) -> EarlierLoads | None:
        if self.earlier is None:
            return None
        columns = EarlierColumns(
            *(_numbers(batch.column(column)) for column in earlier_columns(name).values())
        )
        is_unmoved = batch.column(UNMOVED).fill_null(False).to_numpy(zero_copy_only=False)
        return earlier_loads(columns, is_unmoved & self.is_apart, self.earlier, self.scale)


@dataclass(frozen=True, eq=False)
class _CommonNoise:
    """What all key groups have in common, for one load."""

    period: _Period
    common: NoiseModel
    jumped: frozenset[str] = frozenset()
    """Nodes whose load really moved since the snapshot before."""

    def has_jumped(self, batch: pa.RecordBatch) -> BoolArray | None:
        """Whether each row of a batch is on one of these nodes; None without any."""
        if not self.jumped:
            return None
        return np.isin(batch.column("node_id").to_pylist(), list(self.jumped))


def key_group_loads_with_noise(
    good: DataFrame,
    windows: Sequence[datetime],
    window_s: float,
    earlier: EarlierSnapshot | None = None,
) -> LoadsWithNoise:
    """Mean load of each key group, and how far it may be off.

    Args:
        good: rows of metrics.key_groups.
        windows: ends of the windows that count, oldest first.
        window_s: length of a window.
        earlier: the snapshot before; None if there is none.
    """
    values = _loads_in_window(window_s)
    busy = fn.count_if(fn.col("records") > 0).alias("busy_windows")
    packed = key_group_loads(good, windows, window_s, busy, _in_all_windows(values, windows))
    nodes, factors = _factors(in_windows(good, windows), "node_id", values, windows)
    periods = {name: _Period(of) for name, of in factors.items()}
    if earlier is not None:
        packed = _with_earlier(packed, earlier)
        periods = _after(factors, earlier)
    packed = packed.persist()
    models = _models(packed, periods)
    if earlier is not None and earlier.is_apart:
        models = _with_jumps(packed, models, nodes)
    rows = _with_noise(packed, (*LOADS, "busy_windows"), models, KEY_GROUP_NOISE).persist()
    totals = _total_variances(rows, KEY_GROUP_NOISE)
    return LoadsWithNoise(
        rows,
        [
            resource_noise(name, model.period.windows, model.common, totals[name])
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
    _, factors = _factors(in_windows(good, windows), fn.lit("all"), values, windows)
    columns = (*ENDS, "records_per_s", "bytes_per_s")
    models = _models(packed, {name: _Period(of) for name, of in factors.items()})
    return _with_noise(packed, columns, models, TRAFFIC_NOISE).persist()


def _with_earlier(packed: DataFrame, earlier: EarlierSnapshot) -> DataFrame:
    """The rows with the loads and the noise of the snapshot before; NULL where it has none."""
    known = [fn.col("node_id").alias("earlier_node_id")]
    for name in KEY_GROUP_LOADS:
        known += [fn.col(column).alias(alias) for column, alias in earlier_columns(name).items()]
    joined = packed.join(earlier.rows.select(*GROUP, *known), list(GROUP), "left")
    is_there = fn.col("node_id") == fn.col("earlier_node_id")
    return joined.withColumn(UNMOVED, is_there).drop("earlier_node_id")


def earlier_columns(name: str) -> dict[str, str]:
    """Columns of the snapshot before, in the order of ``EarlierColumns``, and what they are called
    beside those of this period."""
    of = KEY_GROUP_NOISE[name]
    columns = (KEY_GROUP_LOADS[name], of.level, of.level_error, of.window_sd)
    return {column: f"earlier_{column}" for column in columns if column is not None}


def _after(factors: Mapping[str, WindowFactors], earlier: EarlierSnapshot) -> dict[str, _Period]:
    """The period of each load, after the snapshot before."""
    sums = [fn.sum(load).alias(name) for name, load in KEY_GROUP_LOADS.items()]
    (then,) = earlier.rows.agg(*sums).collect()
    periods = {}
    for name, windows in factors.items():
        now = float(windows.node_loads.sum()) / max(1, windows.windows)
        total = then[name] or 0.0
        scale = now / total if total > 0 else 0.0
        periods[name] = _Period(windows, earlier.resources.get(name), scale, earlier.is_apart)
    return periods


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
) -> tuple[list[str], dict[str, WindowFactors]]:
    """(nodes, what windows have in common), from the sums of nodes: a row for a node and window."""
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
    return row.dictionary.to_pylist(), factors


def _with_jumps(
    packed: DataFrame, models: Mapping[str, _CommonNoise], nodes: Sequence[str]
) -> dict[str, _CommonNoise]:
    """The models, with the nodes whose load really moved; a row for each node comes to the driver.

    Args:
        packed: rows of key groups beside those of the snapshot before.
        models: what all key groups have in common, by load.
        nodes: the nodes in the order of the models' windows.
    """
    sums = []
    for name, model in models.items():
        _, level, error, _ = earlier_columns(name).values()
        is_known = fn.col(level).isNotNull() & fn.col(error).isNotNull()
        scale = fn.lit(model.period.scale)
        for key, value in (
            ("mean", fn.col(KEY_GROUP_LOADS[name])),
            ("level", fn.col(level) * scale),
            ("variance", (fn.col(error) * scale) ** 2),
        ):
            known = fn.sum(fn.when(is_known, value).otherwise(0.0))
            sums.append(known.cast("double").alias(f"{name}_{key}"))
    found = packed.where(fn.col(UNMOVED)).groupBy("node_id").agg(*sums).toArrow()
    row_of = {node: row for row, node in enumerate(found["node_id"].to_pylist())}
    at = [row_of.get(node) for node in nodes]

    def in_order(column: str) -> FloatArray:
        values = found[column].to_numpy()
        return np.array([0.0 if row is None else values[row] for row in at])

    with_jumps = {}
    for name, model in models.items():
        sums_of_nodes = EarlierNodes(
            *(in_order(f"{name}_{key}") for key in ("mean", "level", "variance"))
        )
        moved = jumped_nodes(model.period.windows, model.common, sums_of_nodes)
        jumped = frozenset(node for node, has in zip(nodes, moved, strict=True) if has)
        with_jumps[name] = replace(model, jumped=jumped)
    return with_jumps


def _models(packed: DataFrame, periods: Mapping[str, _Period]) -> dict[str, _CommonNoise]:
    """The first pass: one row of sums for each load comes from each partition."""
    found = packed.mapInArrow(partial(_sums_of_batches, periods), SUMS_DDL)
    total = dict.fromkeys(periods, MomentSums())
    for row in found.toArrow().to_pylist():
        total[row["name"]] += MomentSums(*row["sums"])
    return {
        name: _CommonNoise(of, noise_model(total[name], of.windows, of.earlier))
        for name, of in periods.items()
    }


def _sums_of_batches(periods: Mapping[str, _Period], batches: Batches) -> Batches:
    """Sums of the moments of key groups, by load."""
    total = dict.fromkeys(periods, MomentSums())
    for batch in batches:
        for name, period in periods.items():
            total[name] += moment_sums(period.moments(batch, name))
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
    types = [
        f"`{field.name}` {field.dataType.simpleString()}"
        for field in packed.select(*columns).schema
    ]
    added = [f"{column} double" for of in names.values() for column in of.stored]
    add = partial(_noise_of_batches, models, names, columns)
    return packed.mapInArrow(add, ", ".join([*types, *added]))


def _noise_of_batches(
    models: Mapping[str, _CommonNoise],
    names: Mapping[str, NoiseColumnNames],
    columns: Sequence[str],
    batches: Batches,
) -> Batches:
    """Batches of these columns with the noise of each row; NULL where it is not known."""
    for batch in batches:
        found = {name: batch.column(name) for name in columns}
        for name, model in models.items():
            moments = model.period.moments(batch, name)
            noise = key_group_noise(moments, model.common, model.has_jumped(batch))
            values = (noise.window_sd, noise.mean_error, noise.level, noise.level_error)
            found |= {
                column: _nullable(of)
                for column, of in zip(names[name].stored, values, strict=False)
            }
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


def _numbers(column: Any) -> FloatArray:
    """An array with NaN for NULL."""
    return np.asarray(column.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False))


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
