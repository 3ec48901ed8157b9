"""A problem folder: problem.json, nodes.parquet, key_groups.parquet and traffic.parquet.

Files have plain columns, and this package does not import the solvers. Reading checks everything;
the error names the first bad value.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ballast.contracts.errors import ProblemError
from ballast.contracts.tables import LEXICOGRAPHIC, OBJECTIVES, TRADES, WEIGHTED
from ballast.problems.columns import BoolArray, Columns, FloatArray, IntArray

NODE_STATES = ("alive", "draining", "dead")
BUDGETS = ("moves", "bytes", "pause_s")
SETTINGS = (
    "objective", "max_load_distance", "trade", "traffic_weight", "load_weight", "budget",
    "pause_c0_s", "pause_s_per_byte", "weights", "caps", "params",
)  # fmt: skip
LARGEST = 2**63
LONGEST_SHOWN = 60

DEFAULT_PAUSE_C0_S = 0.1
DEFAULT_PAUSE_S_PER_BYTE = 1e-8
"""Default cost of a move: a tenth of a second and 100 MB/s. With zero a pause budget would have no
effect."""


@dataclass(frozen=True, slots=True)
class BudgetSpec:
    """The budget as problem.json gives it; None means no limit."""

    moves: int | None = None
    bytes: int | None = None
    pause_s: float | None = None


@dataclass(frozen=True, slots=True)
class TradeSpec:
    """The weights of a percent of traffic saved and of a percent of load distance."""

    traffic: float = 1.0
    load: float = 1.0


@dataclass(frozen=True, eq=False, slots=True)
class NodeColumns:
    node_ids: pa.Array  # text
    capacity: FloatArray  # [N, R]
    state: pa.Array  # text
    rack: pa.Array  # text
    id_type: pa.DataType = field(default_factory=pa.string)  # as it is in the file


@dataclass(frozen=True, eq=False, slots=True)
class AllowedColumns:
    """Rows of node indices; a key group that is not restricted has none."""

    indptr: IntArray
    nodes: IntArray
    restricted: BoolArray


@dataclass(frozen=True, eq=False, slots=True)
class KeyGroupColumns:
    key_group_ids: pa.Array  # text
    operator_ids: pa.Array  # text
    current: IntArray  # [G], row of the node
    load: FloatArray  # [G, R]
    state_bytes: IntArray
    pinned: BoolArray
    allowed: AllowedColumns | None = None
    id_type: pa.DataType = field(default_factory=pa.string)  # as it is in the file


@dataclass(frozen=True, eq=False, slots=True)
class TrafficColumns:
    from_index: IntArray  # [E], row of the key group
    to_index: IntArray
    rate: FloatArray


@dataclass(frozen=True, eq=False, slots=True)
class ProblemFolder:
    """The content of a problem folder. ``extra`` has the other settings of problem.json."""

    resources: tuple[str, ...]
    nodes: NodeColumns
    key_groups: KeyGroupColumns
    objective: str = "balance"
    budget: BudgetSpec = field(default_factory=BudgetSpec)
    traffic: TrafficColumns | None = None
    pause_c0_s: float = DEFAULT_PAUSE_C0_S
    pause_s_per_byte: float = DEFAULT_PAUSE_S_PER_BYTE
    weights: Mapping[str, float] = field(default_factory=dict)  # by resource; absent: 1
    caps: tuple[str, ...] = ()  # resources that must fit and are not balanced
    max_load_distance: float | None = None  # percent; the limit of a joint plan
    trade_weights: TradeSpec | None = None  # of a joint plan without that limit
    extra: Mapping[str, Any] = field(default_factory=dict)


def read_problem(folder: str | Path) -> ProblemFolder:
    """Read and check a problem folder.

    Raises:
        ProblemError: A file is missing or has a bad value; the error names file, column and row.
    """
    root = Path(folder)
    if not root.is_dir():
        raise ProblemError(f"{root} is not a folder", remedy="give a problem folder")
    settings = read_json(root / "problem.json")
    budget = _budget(settings.pop("budget", {}))
    objective = settings.pop("objective", "balance")
    if objective not in OBJECTIVES:
        raise ProblemError(
            f"problem.json: objective is {objective!r}", allowed=", ".join(OBJECTIVES)
        )
    trade_weights = _trade_weights(objective, settings)
    max_distance = _max_load_distance(
        objective, settings.pop("max_load_distance", None), is_weighted=trade_weights is not None
    )
    c0 = _number("pause_c0_s", settings.pop("pause_c0_s", DEFAULT_PAUSE_C0_S))
    per_byte = _number(
        "pause_s_per_byte", settings.pop("pause_s_per_byte", DEFAULT_PAUSE_S_PER_BYTE)
    )
    node_file = Columns(root / "nodes.parquet")
    group_file = Columns(root / "key_groups.parquet")
    resources = _resources(node_file, group_file)
    weights = _weights(settings.pop("weights", {}), resources)
    caps = _caps(settings.pop("caps", []), resources)
    nodes = _nodes(node_file, resources)
    key_groups = _key_groups(group_file, nodes, resources)
    _check_settings(settings)
    return ProblemFolder(
        resources=resources,
        nodes=nodes,
        key_groups=key_groups,
        objective=objective,
        budget=budget,
        traffic=_traffic(root / "traffic.parquet", key_groups),
        pause_c0_s=c0,
        pause_s_per_byte=per_byte,
        weights=weights,
        caps=caps,
        max_load_distance=max_distance,
        trade_weights=trade_weights,
        extra=settings,
    )


def _check_settings(rest: dict[str, Any]) -> None:
    """Refuse unknown names: a misspelt limit would be ignored."""
    unknown = sorted(set(rest) - {"params"})
    if unknown:
        raise ProblemError(f"problem.json has {unknown}", allowed=", ".join(SETTINGS))


def read_json(path: Path) -> dict[str, Any]:
    """Read one JSON object.

    Raises:
        ProblemError: The file is missing or not a JSON object.
    """
    if not path.is_file():
        raise ProblemError(f"{path} is missing", remedy="see docs/solvers.md for the format")
    try:
        content = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_each_once)
    except (OSError, ValueError, RecursionError) as error:
        raise ProblemError(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(content, dict):
        raise ProblemError(f"{path} holds {type(content).__name__}", allowed="a JSON object")
    return content


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} occurs more than once")
    return content


def _budget(content: Any) -> BudgetSpec:
    if content is None:
        content = {}
    if not isinstance(content, dict):
        raise ProblemError(f"problem.json: budget is {content!r}", allowed="an object")
    unknown = sorted(set(content) - set(BUDGETS))
    if unknown:
        # A misspelt limit would be ignored.
        raise ProblemError(f"problem.json: budget has {unknown}", allowed=", ".join(BUDGETS))
    pause_s = content.get("pause_s")
    return BudgetSpec(
        moves=_whole("moves", content.get("moves")),
        bytes=_whole("bytes", content.get("bytes")),
        pause_s=None if pause_s is None else _number("budget.pause_s", pause_s),
    )


def _whole(name: str, value: Any) -> int | None:
    if value is None:
        return None
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not is_whole or not 0 <= value < LARGEST:
        raise ProblemError(
            f"problem.json: budget.{name} is {_shortened(value)}",
            allowed=f"a whole number >= 0 and < {LARGEST}, or absent for no limit",
        )
    return int(value)


def _number(name: str, value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # Compared, not converted: a whole number of JSON may be beyond what a float can hold.
    if not is_number or not 0 <= value <= sys.float_info.max:
        raise ProblemError(
            f"problem.json: {name} is {_shortened(value)}", allowed="a finite number >= 0"
        )
    return float(value)


def _shortened(value: Any) -> str:
    text = repr(value)
    return (
        text
        if len(text) <= LONGEST_SHOWN
        else f"{text[:LONGEST_SHOWN]}... ({len(text)} characters)"
    )


def _trade_weights(objective: str, settings: dict[str, Any]) -> TradeSpec | None:
    """Read trade, traffic_weight and load_weight; weights are refused unless trade is weighted."""
    trade = settings.pop("trade", LEXICOGRAPHIC)
    if trade not in TRADES or (trade == WEIGHTED and objective != "joint"):
        raise ProblemError(
            f"problem.json: trade is {_shortened(trade)} and the objective {objective!r}",
            allowed=f"{', '.join(TRADES)}; {WEIGHTED} if the objective is joint",
        )
    names = [name for name in ("traffic_weight", "load_weight") if name in settings]
    given = {name: _number(name, settings.pop(name)) for name in names}
    if trade != WEIGHTED:
        if given:
            raise ProblemError(
                f"problem.json: {names[0]} is given and trade is {trade!r}",
                remedy=f"leave it out, or set trade to {WEIGHTED!r}",
            )
        return None
    zero = next((name for name, value in given.items() if value == 0), None)
    if zero is not None:
        raise ProblemError(f"problem.json: {zero} is 0", value=0, allowed="a number > 0")
    return TradeSpec(given.get("traffic_weight", 1.0), given.get("load_weight", 1.0))


def _max_load_distance(objective: str, value: Any, *, is_weighted: bool) -> float | None:
    if value is None:
        return None
    if is_weighted:
        raise ProblemError(
            f"problem.json: max_load_distance is {_shortened(value)} and trade is {WEIGHTED!r}, "
            "which has no bound",
            remedy=f"leave it out, or set trade to {LEXICOGRAPHIC!r}",
        )
    number = _number("max_load_distance", value)
    if number == 0 or objective != "joint":
        raise ProblemError(
            f"problem.json: max_load_distance is {value!r} and the objective {objective!r}",
            allowed="a number > 0, if the objective is joint",
        )
    return number


def _weights(content: Any, resources: tuple[str, ...]) -> dict[str, float]:
    """Read weights: an object of resource and weight."""
    if not isinstance(content, dict):
        raise ProblemError(f"problem.json: weights is {content!r}", allowed="an object")
    _check_known("weights", list(content), resources)
    weights = {name: _number(f"weights.{name}", value) for name, value in content.items()}
    zero = next((name for name, value in weights.items() if value == 0), None)
    if zero is not None:
        raise ProblemError(
            f"problem.json: weights.{zero} is 0",
            value=0,
            allowed="a number > 0",
            remedy="to leave a resource out of the balance, name it in caps",
        )
    return weights


def _caps(content: Any, resources: tuple[str, ...]) -> tuple[str, ...]:
    """Read caps: the resources that must fit each node and are not balanced."""
    if not isinstance(content, list) or not all(isinstance(name, str) for name in content):
        raise ProblemError(f"problem.json: caps is {content!r}", allowed="a list of resources")
    _check_known("caps", content, resources)
    if set(content) == set(resources):
        raise ProblemError(
            "problem.json: caps names every resource, so there is nothing to balance",
            remedy="leave at least one resource out of caps",
        )
    return tuple(dict.fromkeys(content))


def _check_known(field_name: str, names: list[str], resources: tuple[str, ...]) -> None:
    unknown = sorted(set(names) - set(resources))
    if unknown:
        raise ProblemError(
            f"problem.json: {field_name} has {unknown}", allowed=", ".join(resources)
        )


def _resources(nodes: Columns, groups: Columns) -> tuple[str, ...]:
    """Return the resources of the cap_* and load_* columns, which must be the same."""
    capacities, loads = nodes.suffixes("cap_"), groups.suffixes("load_")
    if not capacities:
        raise ProblemError("nodes.parquet: there is no cap_<resource> column")
    if sorted(capacities) != sorted(loads):
        raise ProblemError(
            f"nodes.parquet has capacities for {sorted(capacities)}, key_groups.parquet has "
            f"loads for {sorted(loads)}",
            remedy="give each resource one cap_ and one load_ column",
        )
    return tuple(capacities)


def _nodes(file: Columns, resources: tuple[str, ...]) -> NodeColumns:
    node_ids = file.ids("node_id")
    if not len(node_ids):
        raise ProblemError("nodes.parquet: there are no nodes", remedy="give at least one")
    state = file.text("state")
    file.index_of_values("state", state, pa.array(NODE_STATES), f"state ({', '.join(NODE_STATES)})")
    return NodeColumns(
        node_ids=node_ids,
        capacity=_matrix(file, "cap_", resources, above_zero=True),
        state=state,
        rack=_rack(file),
        id_type=file.raw("node_id").type,
    )


def _rack(file: Columns) -> pa.Array:
    """Return the racks; empty names if there are none."""
    if not file.has("rack"):
        return pa.array([""] * file.n_rows, pa.string())
    column = file.raw("rack")
    if pa.types.is_null(column.type):
        return pa.array([""] * file.n_rows, pa.string())
    return file.as_text("rack", column).fill_null("")


def _matrix(
    file: Columns, prefix: str, resources: tuple[str, ...], *, above_zero: bool
) -> FloatArray:
    return np.column_stack([file.floats(prefix + r, above_zero=above_zero) for r in resources])


def _key_groups(file: Columns, nodes: NodeColumns, resources: tuple[str, ...]) -> KeyGroupColumns:
    pinned = file.booleans("pinned") if file.has("pinned") else np.zeros(file.n_rows, dtype=bool)
    return KeyGroupColumns(
        key_group_ids=file.ids("key_group_id"),
        operator_ids=file.text("operator_id"),
        current=file.index_of("node_id", nodes.node_ids, "node of nodes.parquet"),
        load=_matrix(file, "load_", resources, above_zero=False),
        state_bytes=file.whole_numbers("state_bytes"),
        pinned=pinned,
        allowed=_allowed(file, nodes.node_ids),
        id_type=file.raw("key_group_id").type,
    )


def _allowed(file: Columns, node_ids: pa.Array) -> AllowedColumns | None:
    """Read allowed_nodes: lists of node ids; null allows every node, an empty list none."""
    if not file.has("allowed_nodes"):
        return None
    column = file.raw("allowed_nodes")
    if pa.types.is_null(column.type):
        return None
    if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        raise ProblemError(
            f"{file.file}: column 'allowed_nodes' has the type {column.type}",
            allowed="lists of node ids",
        )
    restricted = ~np.asarray(column.is_null().to_numpy(zero_copy_only=False), dtype=bool)
    lengths = np.asarray(
        column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64
    )
    names = column.flatten()
    if names.null_count:
        raise ProblemError(f"{file.file}: allowed_nodes has a list with a missing node id")
    if pa.types.is_dictionary(names.type):
        names = names.dictionary_decode()
    nodes = file.index_of_values(
        "allowed_nodes",
        file.as_text("allowed_nodes", names),
        node_ids,
        "node of nodes.parquet",
    )
    return AllowedColumns(np.concatenate(([0], np.cumsum(lengths))), nodes, restricted)


def _traffic(path: Path, key_groups: KeyGroupColumns) -> TrafficColumns | None:
    if not path.exists():
        return None
    file = Columns(path)
    known = key_groups.key_group_ids
    return TrafficColumns(
        from_index=file.index_of("from_id", known, "key group of key_groups.parquet"),
        to_index=file.index_of("to_id", known, "key group of key_groups.parquet"),
        rate=file.floats("rate"),
    )


def write_problem(folder: str | Path, problem: ProblemFolder) -> None:
    """Write a problem folder; existing files are replaced."""
    root = Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    (root / "problem.json").write_text(_settings_text(problem), encoding="utf-8")
    pq.write_table(_node_table(problem), root / "nodes.parquet")
    pq.write_table(_key_group_table(problem), root / "key_groups.parquet")
    if problem.traffic is None:
        (root / "traffic.parquet").unlink(missing_ok=True)
    else:
        pq.write_table(_traffic_table(problem, problem.traffic), root / "traffic.parquet")


def _settings_text(problem: ProblemFolder) -> str:
    limits = {name: getattr(problem.budget, name) for name in BUDGETS}
    settings = {
        "objective": problem.objective,
        "budget": {name: limit for name, limit in limits.items() if limit is not None},
        "pause_c0_s": problem.pause_c0_s,
        "pause_s_per_byte": problem.pause_s_per_byte,
        **({"weights": dict(problem.weights)} if problem.weights else {}),
        **({"caps": list(problem.caps)} if problem.caps else {}),
        **({"max_load_distance": problem.max_load_distance} if problem.max_load_distance else {}),
        **_trade_settings(problem.trade_weights),
        **problem.extra,
    }
    return json.dumps(settings, indent=2, allow_nan=False) + "\n"


def _trade_settings(weights: TradeSpec | None) -> dict[str, Any]:
    if weights is None:
        return {}
    return {"trade": WEIGHTED, "traffic_weight": weights.traffic, "load_weight": weights.load}


def _node_table(problem: ProblemFolder) -> pa.Table:
    nodes = problem.nodes
    capacities = {f"cap_{name}": nodes.capacity[:, r] for r, name in enumerate(problem.resources)}
    return pa.table(
        {"node_id": nodes.node_ids, **capacities, "state": nodes.state, "rack": nodes.rack}
    )


def _key_group_table(problem: ProblemFolder) -> pa.Table:
    groups = problem.key_groups
    columns: dict[str, Any] = {
        "key_group_id": groups.key_group_ids,
        "operator_id": groups.operator_ids,
        "node_id": problem.nodes.node_ids.take(pa.array(groups.current)),
    }
    for r, name in enumerate(problem.resources):
        columns[f"load_{name}"] = groups.load[:, r]
    columns["state_bytes"] = groups.state_bytes
    columns["pinned"] = groups.pinned
    if groups.allowed is not None:
        columns["allowed_nodes"] = _allowed_lists(groups.allowed, problem.nodes.node_ids)
    return pa.table(columns)


def _allowed_lists(allowed: AllowedColumns, node_ids: pa.Array) -> pa.Array:
    names = node_ids.take(pa.array(allowed.nodes))
    offsets = pa.array(allowed.indptr.astype(np.int32))
    return pa.ListArray.from_arrays(offsets, names, mask=pa.array(~allowed.restricted))


def _traffic_table(problem: ProblemFolder, traffic: TrafficColumns) -> pa.Table:
    ids = problem.key_groups.key_group_ids
    return pa.table(
        {
            "from_id": ids.take(pa.array(traffic.from_index)),
            "to_id": ids.take(pa.array(traffic.to_index)),
            "rate": traffic.rate,
        }
    )
