"""Runs a batch on Spark: one shuffle to the nodes of the first operator, one for each later stage.

Spark's stateful operators place keys by a hash of their own. ``repartitionById`` puts each node's
rows into exactly its partition, and this library keeps the state
(ADR 5).
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everyone uses

from ballast.contracts.errors import InvalidInput
from ballast.streaming.node_task import (
    SOURCE,
    BatchWork,
    Block,
    Delivery,
    Group,
    NodeReport,
    Pair,
    run_node,
)
from ballast.streaming.node_task import unpack as unpack_pairs
from ballast.streaming.routing import NO_SPLITS, Placement, Routes, Splits

KEY, GROUP, NODE, ORDER = "_ballast_key", "_ballast_group", "_ballast_node", "_ballast_order"
ROUTED_KEY, ROUTED_GROUP = "_ballast_routed_key", "_ballast_routed_group"
REPORT = -1

# A row is a block of records for another node, or (to_operator = REPORT) a node's report for the
# driver. Reports pass through all later stages, so that a batch is one Spark job.
WIRE_DDL = (
    "node int, to_operator int, to_group int, from_operator int, from_group int, "
    "records int, payload binary"
)
WIRE = pa.schema(
    [(name, pa.int32()) for name in
     ("node", "to_operator", "to_group", "from_operator", "from_group", "records")]
    + [("payload", pa.binary())]
)  # fmt: skip


class SentRoutes:
    """The routes of one plan version, sent to the executors once instead of with every batch.

    Python workers cache a broadcast variable. The source is routed before any Python code runs: its
    records are joined in the JVM with a table of the first operator's routes.
    """

    def __init__(self, spark: SparkSession, placement: Placement, first_operator: str) -> None:
        self.version = placement.version
        self._all = spark.sparkContext.broadcast(
            {operator: dict(routes) for operator, routes in placement.routes.items()}
        )
        first = placement.routes_of(first_operator)
        self.source = _route_table(spark, first).persist() if first else None

    def on_worker(self) -> Callable[[], Mapping[str, Routes]]:
        """A function that gives the routes inside a task."""
        sent = self._all
        return lambda: sent.value

    def forget(self) -> None:
        """Frees the executors' memory when another version is in force."""
        self._all.destroy()
        if self.source is not None:
            self.source.unpersist()


def _route_table(spark: SparkSession, routes: Routes) -> DataFrame:
    columns = {
        ROUTED_KEY: pa.array(routes.keys(), pa.string()),
        ROUTED_GROUP: pa.array(routes.values(), pa.int32()),
    }
    return spark.createDataFrame(pa.table(columns))


def run_stages(
    frame: DataFrame, source_key: str, work: BatchWork, source_routes: DataFrame | None = None
) -> list[NodeReport]:
    """Processes one batch.

    Args:
        frame: the records of the source.
        source_key: SQL expression of a record's key.
        work: the work of the batch.
        source_routes: table of the first operator's routes; None if it has none.

    Returns:
        The reports of all nodes and stages.
    """
    nodes = len(work.node_ids)
    wire = (
        routed_source(frame, source_key, work, source_routes)
        .repartitionById(nodes, F.col(NODE))
        .mapInArrow(_first_stage(work, list(frame.columns)), WIRE_DDL)
    )
    for stage in range(1, work.topology.stages):
        wire = wire.repartitionById(nodes, F.col("node")).mapInArrow(
            _later_stage(work, stage), WIRE_DDL
        )
    rows = wire.select("to_operator", "payload").collect()
    # The payloads were written by the tasks of this batch.
    return [pickle.loads(row.payload) for row in rows if row.to_operator == REPORT]  # noqa: S301


def routed_source(
    frame: DataFrame, source_key: str, work: BatchWork, routes: DataFrame | None = None
) -> DataFrame:
    """The source with key, key group, node and order of each record.

    A NULL key counts as the empty key, because NULL would go to partition 0.
    """
    key = F.coalesce(F.expr(source_key).cast("string"), F.lit(""))
    hashed = F.pmod(F.crc32(F.col(KEY).cast("binary")), F.lit(work.topology.key_groups[0]))
    keyed = frame.withColumn(ORDER, F.monotonically_increasing_id()).withColumn(KEY, key)
    if routes is None:
        grouped = keyed.withColumn(GROUP, hashed.cast("int"))
    else:
        # A key has at most one route, so that the join neither adds nor drops records.
        grouped = (
            keyed.join(F.broadcast(routes), F.col(KEY) == F.col(ROUTED_KEY), "left")
            .withColumn(GROUP, F.coalesce(F.col(ROUTED_GROUP), hashed.cast("int")))
            .drop(ROUTED_KEY, ROUTED_GROUP)
        )
    splits = work.splits.get(work.topology.ids[0], NO_SPLITS)
    if splits:
        grouped = grouped.withColumn(GROUP, _dealt(splits))
    return grouped.withColumn(NODE, _node_of(work.owners[0]))


def _dealt(splits: Splits) -> Column:
    """The key group of a record: those of a split key by a hash of their place in the source.

    The place itself would not do: a key that comes as every second record would have one part.
    """
    group = F.col(GROUP)
    for key, groups in splits.items():
        turn = F.pmod(F.xxhash64(F.col(ORDER)), F.lit(len(groups))).cast("int")
        part = F.element_at(F.array(*map(F.lit, groups)), turn + 1)
        group = F.when(F.col(KEY) == F.lit(key), part).otherwise(group)
    return group


def _node_of(route: tuple[int, ...]) -> Column:
    """The node of the key group; one string literal keeps the query plan small."""
    return F.split(F.lit(",".join(map(str, route))), ",")[F.col(GROUP)].cast("int")


Batches = Iterable[pa.RecordBatch]


def _first_stage(
    work: BatchWork, columns: list[str]
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def stage(batches: Batches) -> Iterator[pa.RecordBatch]:
        node = _this_node()
        inbox = source_inbox(list(batches), columns, node)
        yield wire_batch(work, *run_node(work, node, 0, inbox), [])

    return stage


def _later_stage(work: BatchWork, stage: int) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        node = _this_node()
        inbox, reports = wire_inbox(batches, node)
        yield wire_batch(work, *run_node(work, node, stage, inbox), reports)

    return run


def source_inbox(
    batches: list[pa.RecordBatch], columns: list[str], node: int
) -> dict[Group, list[Delivery]]:
    """One delivery for each key group of the first operator, in the order of the source."""
    batches = [batch for batch in batches if batch.num_rows]
    if not batches:
        return {}
    table = pa.Table.from_batches(batches).combine_chunks()
    _check_nodes(table.column(NODE).to_numpy(), node)
    groups = table.column(GROUP).to_numpy()
    order = np.lexsort((table.column(ORDER).to_numpy(), groups))
    table, groups = table.take(pa.array(order)), groups[order]
    starts = np.flatnonzero(np.r_[True, groups[1:] != groups[:-1]])
    ends = np.r_[starts[1:], len(groups)]
    return {
        (0, int(groups[start])): [
            Delivery(SOURCE, _rows(table, columns, int(start), int(end - start)))
        ]
        for start, end in zip(starts, ends, strict=True)
    }


def wire_inbox(batches: Batches, node: int) -> tuple[dict[Group, list[Delivery]], list[bytes]]:
    """Deliveries for the node by key group, and reports of earlier stages."""
    inbox: dict[Group, list[Delivery]] = {}
    reports: list[bytes] = []
    for batch in batches:
        if batch.num_rows:
            _check_nodes(batch.column(0).to_numpy(), node)
        for _, to_operator, to_group, from_operator, from_group, _, payload in zip(
            *(column.to_pylist() for column in batch.columns), strict=True
        ):
            if to_operator == REPORT:
                reports.append(payload)
            else:
                sender = (from_operator, from_group)
                inbox.setdefault((to_operator, to_group), []).append(_delivery(sender, payload))
    return inbox, reports


def wire_batch(
    work: BatchWork, report: NodeReport, blocks: list[Block], reports: list[bytes]
) -> pa.RecordBatch:
    """The output of a task: blocks for the nodes that own their key groups, and reports."""
    own = [*reports, pickle.dumps(report, protocol=5)]
    rows: list[tuple[Any, ...]] = [
        (work.owner(block.target), *block.target, *block.sender, block.records, block.payload)
        for block in blocks
    ]
    rows += [(report.node, REPORT, 0, 0, 0, 0, payload) for payload in own]
    arrays = [pa.array(v, f.type) for v, f in zip(zip(*rows, strict=True), WIRE, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=WIRE)


def _rows(table: pa.Table, columns: list[str], start: int, length: int) -> Callable[[], list[Pair]]:
    def read() -> list[Pair]:
        part = table.slice(start, length)
        try:
            keys = part.column(KEY).to_pylist()
            return list(zip(keys, part.select(columns).to_pylist(), strict=True))
        except UnicodeDecodeError as error:
            raise InvalidInput(
                f"the source has text that is not UTF-8: {error}", value=error.object[:40],
                allowed="UTF-8 in every text column and in source_key",
                remedy="apply make_valid_utf8(...) or hex(...) to it in the stream",
            ) from error  # fmt: skip

    return read


def _delivery(sender: Group, payload: bytes) -> Delivery:
    return Delivery(sender, lambda: unpack_pairs(payload), len(payload))


def _this_node() -> int:
    """The number of the node, which is the number of the partition."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("a stage runs only inside a Spark task")
    return int(context.partitionId())


def _check_nodes(nodes: np.ndarray[Any, Any], node: int) -> None:
    if (nodes != node).any():
        raise RuntimeError(f"rows for node {set(nodes.tolist())} came to partition {node}")
