"""Mean rates of keys and of pairs of keys over windows, cut to the heaviest."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from spark_jobs.snapshot.window_rows import in_windows

PAIR = ("kind", "from_operator_id", "from_key", "to_operator_id", "to_key")
EDGE = ("kind", "from_operator_id", "receiver")
# Most rows of a snapshot for the pairs of an edge and for the keys of an operator. Keys cost a
# search little and are needed for balance; pairs cost it much (ADR 27).
MOST_PAIRS, MOST_KEYS = 10_000, 20_000


def key_pair_rates(
    good: DataFrame,
    windows: Sequence[datetime],
    window_s: float,
    most_pairs: int = MOST_PAIRS,
    most_keys: int = MOST_KEYS,
) -> DataFrame:
    """Mean rates of keys and key pairs over the windows, with an upper bound of the error.

    Only the heaviest of each edge and operator are returned, so that a snapshot stays small.
    """
    seconds = fn.lit(len(windows) * window_s)
    rates = _bounded_sums(in_windows(good, windows)).select(
        *PAIR,
        (fn.col("records") / seconds).alias("records_per_s"),
        (fn.col("error_records") / seconds).alias("error_records_per_s"),
    )
    return heaviest(rates, most_pairs, most_keys)


def _bounded_sums(rows: DataFrame) -> DataFrame:
    """Records of each key and pair in all windows, and the most that may be missing.

    In a window without a row for it, a key or pair may have had as many records as the row for
    the others of its edge or operator allows. That number is added to its error, so the bound
    holds for the sum.
    """
    # NULL equals nothing in a join.
    rows = rows.withColumn("receiver", fn.coalesce("to_operator_id", fn.lit("")))
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
    return bounded.select(*PAIR, "records", missed.alias("error_records"))


def heaviest(
    rates: DataFrame, most_pairs: int = MOST_PAIRS, most_keys: int = MOST_KEYS
) -> DataFrame:
    """The pairs of each edge and keys of each operator that may be the heaviest.

    The rest is added to the row for all others, which is created if there is none. Its records
    are summed. Its error is the most that one pair or key without a row may have had.
    """
    rate, error = fn.col("records_per_s"), fn.col("error_records_per_s")
    is_pair = fn.col("kind").isin("pair", "other_pairs")
    is_other = fn.col("from_key").isNull()
    # Keys break ties, so that the same input always keeps the same rows.
    order = Window.partitionBy("kind", "from_operator_id", "to_operator_id").orderBy(
        (rate + error).desc(), "from_key", "to_key"
    )
    most = fn.when(is_pair, most_pairs).otherwise(most_keys)
    ranked = rates.withColumn("is_kept", ~is_other & (fn.row_number().over(order) <= most))
    others = (
        ranked.where(~fn.col("is_kept"))
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
    return ranked.where("is_kept").select(*names).unionByName(others.select(*names))
