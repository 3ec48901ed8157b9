"""The Spark side of a batch: one shuffle to the first operator's nodes, one per further stage.

Built-in stateful operators would place keys by a hash of their own; ``repartitionById`` puts each
node's rows into exactly its partition, and the state is ours (docs/adr/0005-micro-batch-barrier).
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
from ballast.streaming.node import (
    SOURCE,
    BatchWork,
    Block,
    Delivery,
    Group,
    NodeReport,
    Pair,
    run_node,
)
from ballast.streaming.node import unpack as unpack_pairs
from ballast.streaming.routing import Placement, Routes

KEY, GROUP, NODE, ORDER = "_ballast_key", "_ballast_group", "_ballast_node", "_ballast_order"
ROUTED_KEY, ROUTED_GROUP = "_ballast_routed_key", "_ballast_routed_group"
REPORT = -1

# A block of records for another node, or (to_operator = REPORT) a node's report on its way to
# the driver: reports ride along to the last stage, so a batch is one Spark job.
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
    """The routes of one plan version, sent to the executors once and not with every batch.

    Python workers keep what they read of a broadcast variable for as long as they live. The
    source is routed before any Python runs: its records are joined with a table of the first
    operator's routes, which the JVM looks up in memory.
    """

    def __init__(self, spark: SparkSession, placement: Placement, first_operator: str) -> None:
        self.version = placement.version
        self._all = spark.sparkContext.broadcast(
            {operator: dict(routes) for operator, routes in placement.routes.items()}
        )
        first = placement.routes_of(first_operator)
        self.source = _route_table(spark, first).persist() if first else None

    def on_worker(self) -> Callable[[], Mapping[str, Routes]]:
        """What a task asks for the routes."""
        sent = self._all
        return lambda: sent.value

    def forget(self) -> None:
        """Free the executors' memory once another version is in force."""
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
    """Process one batch; the nodes' reports of all stages come back to the driver."""
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
    # Written by the tasks of this very batch.
    return [pickle.loads(row.payload) for row in rows if row.to_operator == REPORT]  # noqa: S301


def routed_source(
    frame: DataFrame, source_key: str, work: BatchWork, routes: DataFrame | None = None
) -> DataFrame:
    """The source with key, key group and node of each record, and an order to process them in.

    A NULL key counts as the empty one: NULL would go to partition 0, whoever owns that.
    """
    key = F.coalesce(F.expr(source_key).cast("string"), F.lit(""))
    hashed = F.pmod(F.crc32(F.col(KEY).cast("binary")), F.lit(work.topology.key_groups[0]))
    keyed = frame.withColumn(ORDER, F.monotonically_increasing_id()).withColumn(KEY, key)
    if routes is None:
        grouped = keyed.withColumn(GROUP, hashed.cast("int"))
    else:
        # A key has one route at most, so the join neither adds nor drops a record.
        grouped = (
            keyed.join(F.broadcast(routes), F.col(KEY) == F.col(ROUTED_KEY), "left")
            .withColumn(GROUP, F.coalesce(F.col(ROUTED_GROUP), hashed.cast("int")))
            .drop(ROUTED_KEY, ROUTED_GROUP)
        )
    return grouped.withColumn(NODE, _node_of(work.owners[0]))


def _node_of(route: tuple[int, ...]) -> Column:
    """Look a key group's node up; a list in one string literal stays small in the query plan."""
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
    """One delivery per key group of the first operator, its records in the source's order."""
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
    """Blocks for the node by key group, and reports of earlier stages to pass on."""
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
    """What a task hands on: blocks to the nodes that own their key groups, reports to itself."""
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
    """A partition is a node: ``repartitionById`` put the node's rows into its partition."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("a stage runs inside a Spark task only")
    return int(context.partitionId())


def _check_nodes(nodes: np.ndarray[Any, Any], node: int) -> None:
    if (nodes != node).any():
        raise RuntimeError(f"rows for node {set(nodes.tolist())} came to partition {node}")
