"""``maintain`` with Spark: the table that Spark writes, and streams over other tables."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import timedelta

from ballast.store.tables import append, open_table, read_rows
from spark_jobs.upkeep.maintenance import maintain
from tests.support.rows import NOW, row_of

REJECTED, KEY_GROUPS = "metrics.rejected", "metrics.key_groups"


def set_aside(settings, days_ago, count):
    at = NOW - timedelta(days=days_ago)
    for number in range(count):
        append(settings, REJECTED, [row_of(
            REJECTED, job="clicks", row_id=f"{days_ago}-{number}", rejected_at=at, reasons=["x"])],
        )  # fmt: skip


def window(settings, days_ago, number):
    at = NOW - timedelta(days=days_ago)
    append(settings, KEY_GROUPS, [row_of(
        KEY_GROUPS, job="clicks", window_date=at.date(), window_end_at=at, key_group=number)],
    )  # fmt: skip


def test_the_table_of_rejected_rows_is_tidied_by_spark(spark, settings):
    set_aside(settings, days_ago=100, count=2)
    set_aside(settings, days_ago=1, count=9)
    sessions = []

    def session():
        sessions.append(1)
        return nullcontext(spark)

    maintain(settings, session, NOW)
    table = open_table(settings, REJECTED)
    assert len(table.file_uris()) == 1
    kept = read_rows(settings, REJECTED, job="clicks")["row_id"].to_pylist()
    assert sorted(kept) == [f"1-{number}" for number in range(9)]
    operations = [entry["operation"] for entry in table.history()]
    assert {"DELETE", "OPTIMIZE"} <= set(operations)
    assert next(e for e in table.history() if e["operation"] == "OPTIMIZE")[
        "engineInfo"
    ].startswith("Apache-Spark")
    maintain(settings, session, NOW)
    assert (len(sessions), open_table(settings, REJECTED).version()) == (1, table.version())


def test_a_stream_over_metrics_goes_on_and_sees_each_row_once(spark, settings, tmp_path):
    """A stream over a table with a retention ignores deletes of whole partitions, by its option.

    Files that were merged from others have no new rows for it.
    """
    for number in range(8):
        window(settings, 1, number)
    window(settings, 40, 100)
    seen = []

    def read_what_there_is():
        def take(frame, _):
            seen.extend(row.key_group for row in frame.select("key_group").collect())

        frames = (
            spark.readStream.format("delta")
            .option("ignoreDeletes", "true")
            .load(settings.table_uri(KEY_GROUPS))
        )
        writer = frames.writeStream.foreachBatch(take)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    read_what_there_is()
    assert sorted(seen) == [*range(8), 100]
    maintain(settings, lambda: nullcontext(spark), NOW)
    assert len(open_table(settings, KEY_GROUPS).file_uris()) == 1
    window(settings, 0, 8)
    read_what_there_is()
    assert sorted(seen) == [*range(9), 100]
