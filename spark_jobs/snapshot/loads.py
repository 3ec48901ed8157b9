"""Loads of key groups, rates of traffic, and the last known loads of key groups on dead nodes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from ballast.contracts.tables import TABLES
from spark_jobs.snapshot.windows import GROUP, in_windows

ENDS = ("from_operator_id", "from_key_group", "to_operator_id", "to_key_group")
PAIR = ("kind", "from_operator_id", "from_key", "to_operator_id", "to_key")
EDGE = ("kind", "from_operator_id", "receiver")
# Most rows of a snapshot for the pairs of an edge and for the keys of an operator. Keys are light
# in a search and needed for balance; pairs are what it costs (docs/adr/0027).
KEPT_PAIRS, KEPT_KEYS = 10_000, 20_000
LOADS = TABLES["snapshots.key_groups"].column_names[2:]


def key_group_loads(good: DataFrame, windows: Sequence[datetime], window_s: float) -> DataFrame:
    """Mean load of each key group over the windows; node and state as of the newest of them."""
    seconds = fn.lit(len(windows) * window_s)
    return in_windows(good, windows).groupBy(*GROUP).agg(*_loads(seconds)).select(*LOADS)


def last_known_loads(good: DataFrame, period_s: float, window_s: float) -> DataFrame:
    """Each key group's load over the last period in which it reported, wherever that lies."""
    last = fn.max("window_end_at").over(Window.partitionBy(*GROUP))
    recent = good.withColumn("last_at", last).where(
        fn.unix_micros("last_at") - fn.unix_micros("window_end_at") < round(period_s * 1_000_000)
    )
    seconds = fn.count("*") * fn.lit(window_s)
    return recent.groupBy(*GROUP).agg(*_loads(seconds)).select(*LOADS)


def stranded_loads(
    measured: DataFrame,
    snapshot: DataFrame | None,
    dead: Collection[str],
    placed: DataFrame | None = None,
) -> DataFrame:
    """Silent key groups on a dead node, with loads by their metrics, else by the newest snapshot.

    Metrics come first: a key group may have moved after the snapshot was taken. Where the plan in
    force has placed them they are, whatever they said last: a node may die before the key groups
    that were brought to it could speak there.
    """
    known = measured
    if snapshot is not None:
        older = snapshot.select(*LOADS).join(measured, list(GROUP), "left_anti")
        known = measured.unionByName(older)
    if placed is not None:
        planned = placed.select(*GROUP, fn.col("node_id").alias("planned"))
        known = known.join(planned, list(GROUP), "left").withColumn(
            "node_id", fn.coalesce("planned", "node_id")
        )
    return known.select(*LOADS).where(fn.col("node_id").isin(list(dead)))


def traffic_rates(good: DataFrame, windows: Sequence[datetime], window_s: float) -> DataFrame:
    """Mean rates between key groups over the windows; a pair without rows sent nothing."""
    seconds = fn.lit(len(windows) * window_s)
    return (
        in_windows(good, windows)
        .groupBy(*ENDS)
        .agg(
            (fn.sum("records") / seconds).alias("records_per_s"),
            (fn.sum("bytes") / seconds).alias("bytes_per_s"),
        )
    )


def key_pair_rates(
    good: DataFrame,
    windows: Sequence[datetime],
    window_s: float,
    kept_pairs: int = KEPT_PAIRS,
    kept_keys: int = KEPT_KEYS,
) -> DataFrame:
    """Mean rates of keys and pairs over the windows, and at most so many more that were missed;
    of each edge and operator the heaviest, so that a snapshot stays small whatever came.

    In a window without a row for it, a key or pair may have had what the row for the others of
    its edge or operator allows: that is added to its error, so the bounds hold for the sum.
    """
    seconds = fn.lit(len(windows) * window_s)
    # NULL is no operator, and equal to nothing in a join.
    receiver = fn.coalesce("to_operator_id", fn.lit(""))
    rows = in_windows(good, windows).withColumn("receiver", receiver)
    others = rows.where(fn.col("from_key").isNull()).select(
        fn.when(fn.col("kind") == "other_pairs", "pair").otherwise("key").alias("kind"),
        "from_operator_id",
        "receiver",
        "window_end_at",
        fn.col("error_records").alias("missable"),
    )
    in_all = others.groupBy(*EDGE).agg(fn.sum("missable").alias("missable_in_all"))
    bounded = (
        rows.join(others, [*EDGE, "window_end_at"], "left")
        .groupBy(*PAIR, "receiver")
        .agg(
            fn.sum("records").alias("records"),
            fn.sum("error_records").alias("error_records"),
            fn.sum(fn.coalesce("missable", fn.lit(0))).alias("missable_with_a_row"),
        )
        .join(in_all, list(EDGE), "left")
    )
    without_a_row = fn.coalesce("missable_in_all", fn.lit(0)) - fn.col("missable_with_a_row")
    missed = fn.col("error_records") + fn.greatest(without_a_row, fn.lit(0))
    rates = bounded.select(
        *PAIR,
        (fn.col("records") / seconds).alias("records_per_s"),
        (missed / seconds).alias("error_records_per_s"),
    )
    return heaviest(rates, kept_pairs, kept_keys)


def heaviest(
    rates: DataFrame, kept_pairs: int = KEPT_PAIRS, kept_keys: int = KEPT_KEYS
) -> DataFrame:
    """The pairs of an edge and keys of an operator that may be the heaviest; the rest as others.

    What is cut joins the row for all others, which is made where there is none: its records are
    added, and no pair or key without a row may have had more than the most that one of them may.
    """
    rate, error = fn.col("records_per_s"), fn.col("error_records_per_s")
    is_pair = fn.col("kind").isin("pair", "other_pairs")
    is_other = fn.col("from_key").isNull()
    # Keys break ties, so that the same rows are cut whenever the same rows are read.
    order = Window.partitionBy("kind", "from_operator_id", "to_operator_id").orderBy(
        (rate + error).desc(), "from_key", "to_key"
    )
    kept = fn.when(is_pair, kept_pairs).otherwise(kept_keys)
    placed = rates.withColumn("is_kept", ~is_other & (fn.row_number().over(order) <= kept))
    others = (
        placed.where(~fn.col("is_kept"))
        .withColumn("most", fn.when(is_other, error).otherwise(rate + error))
        .groupBy(
            fn.when(is_pair, "other_pairs").otherwise("other_keys").alias("kind"),
            "from_operator_id",
            "to_operator_id",
        )
        .agg(
            fn.sum("records_per_s").alias("records_per_s"),
            fn.max("most").alias("error_records_per_s"),
        )
        .withColumns({"from_key": fn.lit(None), "to_key": fn.lit(None)})
    )
    names = [*PAIR, "records_per_s", "error_records_per_s"]
    return placed.where("is_kept").select(*names).unionByName(others.select(*names))


def _loads(seconds: Column) -> list[Column]:
    state = fn.max_by("state_bytes", "window_end_at")
    network = fn.sum(fn.col("bytes_in") + fn.col("bytes_out"))
    return [
        fn.max_by("node_id", "window_end_at").alias("node_id"),
        (fn.sum("cpu_ms") / 1000 / seconds).alias("cpu_load_cores"),
        # Rows of a job of an earlier version do not say it.
        (fn.coalesce(fn.sum("wire_ms"), fn.lit(0.0)) / 1000 / seconds).alias("wire_load_cores"),
        state.cast("double").alias("memory_load_bytes"),
        (network / seconds).alias("network_load_bytes_per_s"),
        (fn.sum("records") / seconds).alias("records_per_s"),
        state.alias("state_bytes"),
    ]
