"""Plans of generated snapshots keep their content hashes when the code changes its structure.

Each case writes generated rows into a warehouse of Delta tables, drafts plans from them as the
product does, and compares the rows of plans.plans with ``golden_plans.json``. Seeds are fixed and
solvers stop by steps, so a busy machine finds the same plans as an idle one.

All names of the code under test are between the two lines "The code under test" and "End of the
code under test". Only that part may be edited when code is moved; the golden file must not change.
If a plan is meant to change, write the file anew and say why in the commit:

    python -m tests.unit.spark_jobs.test_golden_plans --write
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

# ------------------------------------------------------------------ The code under test
from ballast.contracts.identity import hashed_key_group
from ballast.contracts.policy import parse_policy
from ballast.contracts.settings import Settings, load_settings
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import append, read_rows
from spark_jobs.draft.draft_plan import draft_plan
from spark_jobs.draft.solve_arguments import SolveOptions
from spark_jobs.publication.publisher import publish_plan
from spark_jobs.restore.request import RollbackRequest
from spark_jobs.restore.roll_back import roll_back


def open_warehouse(folder: Path) -> Settings:
    """A new warehouse with every table, and without policies of its own."""
    settings = load_settings({"BALLAST_HOME": str(folder)})
    ensure_tables(settings)
    return settings


def add_rows(settings: Settings, table: str, rows: Sequence[dict[str, Any]]) -> None:
    append(settings, table, rows)


def rows_in(settings: Settings, table: str, job: str, **equal: str) -> list[dict[str, Any]]:
    """Rows of a job with these values, as plain dicts."""
    where = [(column, "=", value) for column, value in equal.items()]
    return list(read_rows(settings, table, job=job, where=where).to_pylist())


def checked_policy_json(policy: Mapping[str, Any]) -> str:
    """The text of a policy as snapshots store it."""
    return parse_policy(dict(policy), f"{policy['job']}.yaml").to_json()


def group_by_hash(key: str, key_groups: int) -> int:
    return hashed_key_group(key, key_groups)


def draft_of(settings: Settings, job: str, run_id: str, steps: int, **choice: Any) -> None:
    """Draft the plan of a run's snapshot; the solver stops after this number of steps."""
    draft_plan(settings, job, run_id, SolveOptions(solver_steps=steps, **choice))


def publish(settings: Settings, job: str, run_id: str) -> None:
    """Put a run's draft in force, unless it changes nothing."""
    publish_plan(settings, job, run_id)


def take_back(settings: Settings, job: str, run_id: str, version: int, *, force: bool) -> None:
    """Put the content of an earlier version in force, as a plan of this run."""
    roll_back(settings, job, run_id, RollbackRequest(version, "as it was", force_nodes=force))


# ------------------------------------------------------------------ End of the code under test

Row = dict[str, Any]
Group = tuple[str, int]
Figures = dict[str, Any]

GOLDEN = Path(__file__).with_name("golden_plans.json")
START = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
ROUND = timedelta(minutes=10)
PERIOD, WINDOW = timedelta(seconds=30), timedelta(seconds=5)
SERIES_STEPS = 10
REGION, KEYS, UNITS = "tag", 30, 1000
EXACT = ("content_hash", "objective", "method", "status", "moves", "bytes", "forced_moves",
         "routes", "rerouted_keys", "due_moves")  # fmt: skip
ROUNDED = ("load_distance_before_pct", "load_distance_pct", "pause_s", "collocation_factor_pct")


@dataclass(frozen=True)
class Case:
    """A generated job, its rounds, and what is asked for in each of them.

    ``fields`` are those of the policy. Of a round may be said: ``level``, a factor of all loads;
    ``even``, whether all loads are the same; ``turn``, how far loads differ from those of the
    case; ``wire``, whether the cost of records between nodes was measured; ``states`` of nodes;
    ``shift``, how far keys talk to other keys; ``rates``, ``dead`` and ``blocked`` of a region's
    workers; ``backlog`` of sources. ``back`` is the version whose content comes back after the
    last round; ``force`` lets it be placed anew where it was on lost nodes.
    """

    seed: int
    nodes: int | Sequence[str | Row] = 4
    operators: Mapping[str, int] = field(default_factory=lambda: {"parse": 12, "count": 12})
    fields: Mapping[str, Any] = field(default_factory=dict)
    choice: Mapping[str, Any] = field(default_factory=dict)
    rounds: Sequence[Row] = ({},)
    steps: int = 3
    back: int | None = None
    force: bool = False


# ------------------------------------------------------------------ what is generated


class Job:
    """A job of the warehouse that follows every plan at once."""

    def __init__(self, settings: Settings, name: str, case: Case) -> None:
        self.settings, self.name, self.case = settings, name, case
        self.policy = _policy(name, case)
        self.nodes = {node["id"]: node for node in self.policy["nodes"]}
        self.states = {
            name: "draining" if node.get("draining") else "alive"
            for name, node in self.nodes.items()
            if not node.get("spare")
        }
        self.sizes = {each["id"]: each["key_groups"] for each in self.policy["operators"]}
        self.keys_by_group = bool(self.policy.get("routing"))
        random = Random(case.seed)
        self.placement = _placement(random, self.sizes, list(self.states))
        self.loads = _loads(random, self.placement, self._capacity())
        self.state_bytes = {group: 500 + random.randrange(9500) for group in self.placement}
        self.flows = _flows(random, self.policy["edges"], self.sizes)
        self.pairs: dict[tuple[str, str], float] = {}
        self.routes: dict[tuple[str, str], int] = {}
        self.weights: dict[str, int] = {}
        self.plan_id: str | None = None
        self.snapshots: list[str] = []

    def _capacity(self) -> float:
        used = [self.nodes[name] for name, state in self.states.items() if state == "alive"]
        return sum(node.get("capacity", {}).get("cpu_cores", 1.0) for node in used)

    def run(self) -> Iterator[Figures]:
        """Figures of the plan of each round, and of the rollback after them."""
        case = self.case
        for number, said in enumerate(case.rounds):
            run_id = f"run-{number}"
            self._write_snapshot(run_id, number, said)
            draft_of(self.settings, self.name, run_id, case.steps, **case.choice)
            publish(self.settings, self.name, run_id)
            yield self._figures(run_id)
            self._follow()
        if case.back is not None:
            self._write_snapshot("today", len(case.rounds), case.rounds[-1])
            take_back(self.settings, self.name, "back", case.back, force=case.force)
            yield self._figures("back")

    def _rows(self, table: str, **equal: str) -> list[Row]:
        return rows_in(self.settings, table, self.name, **equal)

    def _figures(self, run_id: str) -> Figures:
        """The figures of a run's plan that are in the golden file."""
        (plan,) = self._rows("plans.plans", run_id=run_id)
        found = {name: plan[name] for name in EXACT if plan[name] is not None}
        found |= {name: round(plan[name], 4) for name in ROUNDED if plan[name] is not None}
        scaling = self._rows("plans.scaling", plan_id=plan["plan_id"])
        weights = self._rows("plans.weights", plan_id=plan["plan_id"])
        if scaling:
            found["scaling"] = {row["subject_id"]: row["wanted"] or row["action"]
                                for row in scaling}  # fmt: skip
        if weights:
            found["weights"] = {row["worker_id"]: row["weight"] for row in weights}
        return found

    def _head(self) -> Row | None:
        return next(iter(self._rows("plans.heads")), None)

    def _follow(self) -> None:
        """Take up the version in force completely."""
        head = self._head()
        if head is None or head["plan_id"] == self.plan_id:
            return
        self.plan_id = head["plan_id"]
        content = {name: self._rows(f"plans.{name}", plan_id=head["plan_id"])
                   for name in ("assignments", "routes", "scaling", "weights")}  # fmt: skip
        self.placement = {
            (row["operator_id"], row["key_group"]): row["node_id"] for row in content["assignments"]
        }
        self.routes = {
            (row["operator_id"], row["key"]): row["key_group"] for row in content["routes"]
        }
        self.weights = {row["worker_id"]: row["weight"] for row in content["weights"]}
        becomes = {"add": "alive", "keep": "alive", "drain": "draining"}
        actions = {row["subject_id"]: row["action"] for row in content["scaling"]
                   if row["subject"] == "node"}  # fmt: skip
        if actions:
            self.states = {name: becomes[action] for name, action in actions.items()
                           if action in becomes}  # fmt: skip

    # -------------------------------------------------------------- rows of a snapshot

    def _write_snapshot(self, run_id: str, number: int, said: Row) -> None:
        """The rows of every part of a snapshot, its own row last."""
        at = START + number * ROUND
        self.pairs = _pairs(Random(self.case.seed), said.get("shift", 0))
        ids = {"job": self.name, "snapshot_id": f"{self.name}-{run_id}"}
        parts = {
            "key_groups": self._key_group_rows(said),
            "nodes": self._node_rows(said, at),
            "traffic": self._traffic_rows(),
            "key_pairs": self._key_pair_rows(),
            "load_series": self._series_rows(said, at),
            "sources": self._source_rows(said),
            "connections": self._connection_rows(said, at),
        }
        for part, rows in parts.items():
            if rows:
                add_rows(self.settings, f"snapshots.{part}", [{**ids, **row} for row in rows])
        own = {**ids, **self._own_row(run_id, at)}
        add_rows(self.settings, "snapshots.snapshots", [own])
        self.snapshots.append(ids["snapshot_id"])

    def _own_row(self, run_id: str, at: datetime) -> Row:
        head = self._head()
        keyed = self.keys_by_group
        return {
            "run_id": run_id,
            "period_start_at": at - PERIOD,
            "period_end_at": at,
            "windows": PERIOD // WINDOW,
            "head_version": head["version"] if head else 0,
            "head_plan_id": head["plan_id"] if head else None,
            "key_groups_table_version": 1,
            "nodes_table_version": 1,
            "traffic_table_version": 1,
            "key_pairs_table_version": 1 if keyed else None,
            "sources_table_version": 1 if "scaling" in self.policy else None,
            "connections_table_version": 1 if self.policy.get("regions") else None,
            "applied_plan_id": self.plan_id,
            "remembered_snapshot_ids": list(self.snapshots) if keyed and self.snapshots else None,
            "rejected_rows": 0,
            "policy_json": checked_policy_json(self.policy),
            "created_at": datetime.now(UTC),
        }

    def _load(self, group: Group, said: Row) -> float:
        mean = sum(self.loads.values()) / len(self.loads)
        own = mean if said.get("even") else self.loads[group]
        # In another round other key groups are heavy.
        turn = 1.0 + said.get("turn", 0.0) * ((group[1] * 7 + len(group[0])) % 5 - 2) / 2
        return round(own * turn * said.get("level", 1.0), 6)

    def _rate(self, group: Group) -> float:
        """Records per second that reach a key group; 20 for one without senders."""
        heard = sum(rate for (_, end), rate in self._traffic().items() if end == group)
        sent = sum(rate for (start, _), rate in self._traffic().items() if start == group)
        return heard or sent or 20.0

    def _key_group_rows(self, said: Row) -> list[Row]:
        return [
            {
                "operator_id": group[0],
                "key_group": group[1],
                "node_id": node,
                "cpu_load_cores": self._load(group, said),
                "wire_load_cores": round(0.1 * self._load(group, said), 6) if said.get("wire")
                else None,
                "memory_load_bytes": float(self.state_bytes[group]),
                "network_load_bytes_per_s": 100.0 + 10 * (group[1] * 5 % 7),
                "records_per_s": self._rate(group),
                "state_bytes": self.state_bytes[group],
            }
            for group, node in self.placement.items()
        ]  # fmt: skip

    def _node_rows(self, said: Row, at: datetime) -> list[Row]:
        states = {**self.states, **said.get("states", {})}
        return [
            {
                "node_id": name,
                "cluster": node.get("cluster", "main"),
                "rack": node.get("rack", "rack-1"),
                "cpu_capacity_cores": node.get("capacity", {}).get("cpu_cores", 1.0),
                "memory_capacity_bytes": node.get("capacity", {}).get("memory_bytes"),
                "network_capacity_bytes_per_s": node.get("capacity", {}).get("network_bytes_per_s"),
                "state": states[name],
                "last_seen_at": at,
                "silent_windows": 0,
            }
            for name, node in self.nodes.items()
            if name in states
        ]

    def _traffic(self) -> Mapping[tuple[Group, Group], float]:
        """Rates between key groups; where keys are routed, those of the keys that meet there."""
        if not self.keys_by_group:
            return self.flows
        found: dict[tuple[Group, Group], float] = {}
        for (one, other), rate in self.pairs.items():
            ends = self._group_of("parse", one), self._group_of("count", other)
            found[ends] = found.get(ends, 0.0) + rate
        return found

    def _group_of(self, operator: str, key: str) -> Group:
        by_hash = group_by_hash(key, self.sizes[operator])
        return operator, self.routes.get((operator, key), by_hash)

    def _traffic_rows(self) -> list[Row]:
        return [
            {
                "from_operator_id": one[0],
                "from_key_group": one[1],
                "to_operator_id": other[0],
                "to_key_group": other[1],
                "records_per_s": rate,
                "bytes_per_s": 0.0 if self.placement[one] == self.placement[other] else 20 * rate,
            }
            for (one, other), rate in self._traffic().items()
        ]

    def _key_pair_rows(self) -> list[Row]:
        if not self.keys_by_group:
            return []
        rates: dict[tuple[str, str], float] = {}
        for (one, other), rate in self.pairs.items():
            for end in (("parse", one), ("count", other)):
                rates[end] = rates.get(end, 0.0) + rate
        pairs = [("pair", "parse", one, "count", other, rate)
                 for (one, other), rate in self.pairs.items()]  # fmt: skip
        keys = [("key", operator, key, None, None, rate) for (operator, key), rate in rates.items()]
        names = ("kind", "from_operator_id", "from_key", "to_operator_id", "to_key",
                 "records_per_s")  # fmt: skip
        return [
            {**dict(zip(names, row, strict=True)), "error_records_per_s": 0.0}
            for row in (*pairs, *keys)
        ]

    def _series_rows(self, said: Row, at: datetime) -> list[Row]:
        if "scaling" not in self.policy:
            return []
        return [
            {
                "operator_id": group[0],
                "key_group": group[1],
                "step": step,
                "step_end_at": at - (SERIES_STEPS - 1 - step) * timedelta(minutes=1),
                "step_s": 60.0,
                "cpu_load_cores": self._load(group, said),
                "busy_load_cores": self._load(group, said),
                "memory_load_bytes": float(self.state_bytes[group]),
                "network_load_bytes_per_s": 100.0,
                "records_per_s": self._rate(group),
            }
            for group in self.placement
            for step in range(SERIES_STEPS)
        ]

    def _source_rows(self, said: Row) -> list[Row]:
        if "scaling" not in self.policy:
            return []
        fed = {edge["to"] for edge in self.policy["edges"]}
        return [
            {"source_id": name, "operator_id": name, "windows": 6,
             "arrival_records_per_s": sum(self._rate((name, number)) for number in range(size)),
             "backlog_records": said.get("backlog", 0)}
            for name, size in self.sizes.items() if name not in fed
        ]  # fmt: skip

    def _connection_rows(self, said: Row, at: datetime) -> list[Row]:
        """Workers of the region, each busy all the time at its rate."""
        rates, dead = said.get("rates", {}), said.get("dead", ())
        share, rest = divmod(UNITS, max(1, len(rates)))
        seconds = WINDOW.total_seconds()
        return [
            {
                "region_id": REGION,
                "worker_id": worker,
                "window_end_at": at - back * WINDOW,
                "state": "dead" if worker in dead else "alive",
                "weight": self.weights.get(worker, share + (index < rest)),
                "sent": 0 if worker in dead else round(rate * seconds),
                "done": 0 if worker in dead else round(rate * seconds),
                "blocked_ms": 1000 * seconds * said.get("blocked", {}).get(worker, 0.0),
                "busy_ms": 0.0 if worker in dead else 1000 * seconds,
            }
            for back in reversed(range(PERIOD // WINDOW))
            for index, (worker, rate) in enumerate(rates.items())
        ]


def _policy(job: str, case: Case) -> Row:
    """The policy of a case as in a file: operators in a chain."""
    named = case.nodes
    if isinstance(named, int):
        named = [f"node-{number}" for number in range(named)]
    return {
        "job": job,
        "window_s": WINDOW.total_seconds(),
        "statistics_period_s": PERIOD.total_seconds(),
        "operators": [
            {"id": name, "key_groups": size, "partition_key": [f"{name}_key"]}
            for name, size in case.operators.items()
        ],
        "edges": [{"from": one, "to": other} for one, other in pairwise(case.operators)],
        "nodes": [{"id": node} if isinstance(node, str) else node for node in named],
        # A rollback has no steps to stop by; it must end by itself long before this.
        "solver": {"seconds": 600.0},
        **case.fields,
    }


def _placement(random: Random, sizes: Mapping[str, int], nodes: Sequence[str]) -> dict[Group, str]:
    """Round robin, with about every third key group elsewhere, more often on the first nodes."""
    placed = {}
    for operator, size in sizes.items():
        for number in range(size):
            place = number % len(nodes)
            if random.random() < 0.35:
                place = int(random.random() ** 2 * len(nodes))
            placed[operator, number] = nodes[place]
    return placed


def _loads(random: Random, groups: Mapping[Group, str], capacity: float) -> dict[Group, float]:
    """Cores of each key group, a few of them heavy: six tenths of the capacity of the nodes."""
    drawn = {group: 1.0 + 6.0 * random.random() ** 4 for group in groups}
    total = sum(drawn.values())
    return {group: 0.6 * capacity * load / total for group, load in drawn.items()}


def _flows(
    random: Random, edges: Sequence[Row], sizes: Mapping[str, int]
) -> dict[tuple[Group, Group], float]:
    """Each key group sends most records to one of the next operator, and few to two others."""
    found: dict[tuple[Group, Group], float] = {}
    for edge in edges:
        one, other = edge["from"], edge["to"]
        for number in range(sizes[one]):
            for share in (30.0, 4.0, 2.0):
                ends = (one, number), (other, random.randrange(sizes[other]))
                rate = round(share * (0.5 + random.random()), 3)
                found[ends] = found.get(ends, 0.0) + rate
    return found


def _pairs(random: Random, shift: int) -> dict[tuple[str, str], float]:
    """Key i sends to key i of the other operator, or to a later one, and a few records to
    another."""
    found: dict[tuple[str, str], float] = {}
    for number in range(KEYS):
        for other, share in (((number + shift) % KEYS, 10.0), (random.randrange(KEYS), 1.0)):
            ends = f"plane {number}", f"place {other}"
            found[ends] = found.get(ends, 0.0) + round(share * (0.5 + random.random()), 3)
    return found


# ------------------------------------------------------------------ the cases


def _sized(*cores: float, **fields: Any) -> list[Row]:
    """Nodes with these cores, and memory and network to go with them."""
    return [
        {
            "id": f"node-{number}",
            "capacity": {
                "cpu_cores": each,
                "memory_bytes": 60_000.0 * each,
                "network_bytes_per_s": 4_000.0 * each,
            },
            **fields,
        }
        for number, each in enumerate(cores)
    ]


def _racks(count: int, racks: int) -> list[Row]:
    return [{"id": f"node-{n}", "rack": f"rack-{n % racks}"} for n in range(count)]


def _spare(used: int, spare: int, **fields: Any) -> list[Row]:
    return [{"id": f"n{n}", "spare": n >= used, **fields} for n in range(used + spare)]


CHAIN = {"parse": 10, "count": 10, "sum": 8}
TWO = {"resources": ["cpu", "memory"]}
JOINT = {"kind": "joint", "max_load_distance_pct": 25.0}
WEIGHTED = {"kind": "joint", "trade": "weighted"}
FREE = {"records_per_byte": 0.0}
PRICES = {"within_rack_price": 1.0, "between_racks_price": 4.0}
KEYED = {
    "objective": {"kind": "joint", "max_load_distance_pct": 60.0},
    "routing": {"edges": [{"from": "parse", "to": "count"}], "max_imbalance": 1.5},
    "gate": FREE,
}
SMALL = {"parse": 6, "count": 6}
SCALING = {"min_nodes": 2, "cool_down_s": 60.0, "stabilisation_rounds": 1, "max_drain_rounds": 5}
SCALED = {"budgets": {"moves": 4}, "scaling": SCALING}
RATES = {"worker-0": 100.0, "worker-1": 50.0, "worker-2": 60.0}
OTHER_RATES = {"worker-0": 30.0, "worker-1": 90.0, "worker-2": 60.0}


def _regions(**fields: Any) -> Row:
    return {"regions": [{"id": REGION, "workers": 3, **fields}]}


CASES: dict[str, Case] = {
    # Balance: budgets, methods, nodes and resources.
    "balance_auto_no_budget": Case(101),
    "balance_auto_moves": Case(102, 5, CHAIN, {"budgets": {"moves": 3}}),
    "balance_auto_bytes": Case(103, 5, CHAIN, {"budgets": {"bytes": 20_000}}),
    "balance_auto_pause": Case(104, 5, CHAIN, {"budgets": {"pause_s": 0.03}}),
    "balance_auto_all_budgets": Case(
        105, 5, CHAIN, {"budgets": {"moves": 6, "bytes": 30_000, "pause_s": 0.04}}
    ),
    "balance_first_plan_budget": Case(
        106, 4, fields={"budgets": {"moves": 1, "first_plan": {"moves": 8}}},
        rounds=({}, {"turn": 0.4}),
    ),
    "balance_choice_over_policy": Case(
        107, 4, fields={"budgets": {"moves": 0}},
        choice={"budget_moves": 5, "budget_bytes": "none", "seed": 9},
    ),
    "balance_search_moves": Case(108, 6, CHAIN, {"budgets": {"moves": 5}},
                                 {"method": "search"}, steps=9),
    "balance_search_bytes": Case(109, 6, CHAIN, {"budgets": {"bytes": 15_000}},
                                 {"method": "search"}),
    "balance_search_other_seed": Case(108, 6, CHAIN, {"budgets": {"moves": 5}},
                                      {"method": "search", "seed": 3}, steps=3),
    "balance_flux_moves": Case(111, 6, CHAIN, {"budgets": {"moves": 4}}, {"method": "flux"},
                               steps=40),
    "balance_unchanged_dead": Case(113, 4, choice={"method": "unchanged"},
                                   rounds=({"states": {"node-3": "dead"}},)),
    "balance_milp_moves": Case(114, 3, SMALL, {"budgets": {"moves": 3}}, {"method": "milp"},
                               steps=40),
    "balance_good_enough": Case(116, 3, {"parse": 9}, {"thresholds": {"good_enough_pct": 90.0}}),
    "balance_capacities": Case(118, _sized(0.5, 1.0, 2.0, 4.0), CHAIN, {"budgets": {"moves": 8}}),
    "balance_dead_node": Case(119, 5, fields={"budgets": {"moves": 2}},
                              rounds=({"states": {"node-1": "dead"}},)),
    "balance_dead_and_draining": Case(
        120, 5, CHAIN, {"budgets": {"moves": 4}},
        rounds=({"states": {"node-0": "draining", "node-4": "dead"}},),
    ),
    "balance_draining_rounds": Case(
        121, ["node-0", "node-1", "node-2", {"id": "node-3", "draining": True}],
        fields={"budgets": {"moves": 3}}, rounds=({}, {"turn": 0.2}, {"turn": -0.2}),
    ),
    "balance_two_resources": Case(122, _sized(1.0, 1.0, 1.0, 1.0), CHAIN,
                                  {"objective": TWO, "budgets": {"moves": 8}}),
    "balance_three_weighted_resources": Case(
        123, _sized(1.0, 2.0, 1.0), CHAIN,
        {"objective": {"resources": ["cpu", "memory", "network"],
                       "weights": {"cpu": 2.0, "network": 0.5}}},
        {"method": "search"},
    ),
    "balance_capped_memory": Case(124, _sized(1.0, 1.0, 1.0, 1.0), CHAIN,
                                  {"objective": {**TWO, "caps": ["memory"]}}),
    # Load and traffic together.
    "joint_moves": Case(201, 4, CHAIN, {"objective": JOINT, "gate": FREE,
                                        "budgets": {"moves": 5}}),
    "joint_no_budget": Case(202, 4, CHAIN, {"objective": JOINT, "gate": FREE}),
    "joint_tight_bound": Case(
        203, 5, CHAIN, {"objective": {"kind": "joint", "max_load_distance_pct": 5.0},
                        "gate": FREE, "budgets": {"moves": 9}},
    ),
    "joint_gate": Case(204, 4, CHAIN, {"objective": JOINT,
                                       "gate": {"records_per_byte": 25.0,
                                                "records_per_pause_s": 100.0}}),
    "joint_racks": Case(205, _racks(6, 2), CHAIN,
                        {"objective": JOINT, "gate": FREE, "traffic": PRICES,
                         "budgets": {"moves": 8}}),
    "joint_dead_and_draining": Case(
        206, 5, CHAIN, {"objective": JOINT, "gate": FREE, "budgets": {"moves": 6}},
        rounds=({"states": {"node-0": "draining", "node-4": "dead"}},),
    ),
    "joint_two_resources": Case(207, _sized(1.0, 1.0, 2.0), CHAIN,
                                {"objective": {**JOINT, **TWO}, "gate": FREE,
                                 "budgets": {"moves": 6}}),
    "joint_rounds_to_a_target": Case(
        208, 4, CHAIN, {"objective": JOINT, "gate": FREE, "budgets": {"moves": 3}},
        rounds=({}, {}, {"turn": 0.1}),
    ),
    "joint_first_plan_from_scratch": Case(
        209, 4, CHAIN, {"objective": JOINT, "gate": FREE,
                        "budgets": {"moves": 2, "first_plan": {}}},
        rounds=({"wire": True}, {"turn": 0.1, "wire": True}),
    ),
    "joint_weighted": Case(210, 4, CHAIN, {"objective": WEIGHTED, "gate": FREE,
                                           "budgets": {"moves": 6}}),
    "joint_weighted_racks": Case(
        211, _racks(6, 3), CHAIN,
        {"objective": {**WEIGHTED, "traffic_weight": 2.0, "load_weight": 0.5}, "gate": FREE,
         "traffic": PRICES, "budgets": {"moves": 8}},
    ),

    # Keys routed one by one.
    "routes_alone": Case(301, 3, SMALL, KEYED, {"budget_moves": 0}),
    "routes_with_moves": Case(302, 4, SMALL, {**KEYED, "budgets": {"moves": 2}}),
    "routes_few_bytes": Case(307, 3, SMALL, KEYED, {"budget_moves": 0, "budget_bytes": 9_000}),
    "routes_rounds_remembered": Case(315, 3, SMALL, KEYED, {"budget_moves": 1},
                                     rounds=({}, {"shift": 1}, {"shift": 5})),
    # Nodes that come and go.
    "scaled_add_drain_remove": Case(
        401, _spare(2, 1), SMALL, SCALED,
        rounds=({"level": 1.6}, *({"level": 0.5},) * 3), steps=4,
    ),
    "scaled_true_rate": Case(402, _spare(2, 2), SMALL,
                             {"scaling": {"method": "true_rate", "min_nodes": 2}},
                             rounds=({"level": 1.6},)),
    "scaled_two_clusters": Case(
        403, [{"id": "a"}, {"id": "b", "cluster": "east"},
              {"id": "c", "cluster": "east", "spare": True}], SMALL,
        {"budgets": {"moves": 4}, "scaling": {}}, rounds=({"level": 1.5, "even": True},),
    ),
    "scaled_source_unknown": Case(404, _spare(2, 1), SMALL, SCALED,
                                  rounds=({"level": 1.6, "backlog": None},)),
    "scaled_joint": Case(405, _spare(2, 2), SMALL,
                         {**SCALED, "objective": JOINT, "gate": FREE},
                         rounds=({"level": 1.6}, {"level": 0.5})),
    # Weights of ordered regions.
    "regions_service": Case(501, 2, SMALL, _regions(),
                            rounds=({"rates": RATES}, {"rates": OTHER_RATES})),
    "regions_blocking": Case(
        502, 2, SMALL, _regions(method="blocking"),
        rounds=({"rates": dict.fromkeys(RATES, 50.0), "blocked": {"worker-1": 0.6}},),
    ),
    "regions_dead_worker_small_steps": Case(
        503, 2, SMALL, _regions(max_change_units=50, min_gain_pct=0.0),
        rounds=({"rates": RATES}, {"rates": RATES, "dead": ("worker-1",)}),
    ),
    # An earlier version again.
    "rollback_balance": Case(601, 4, CHAIN, {"budgets": {"moves": 4}},
                             rounds=({}, {"turn": 0.6}), back=1),
    "rollback_lost_node": Case(
        602, 4, {"parse": 12}, rounds=({"even": True}, {"turn": 0.6},
                                       {"even": True, "states": {"node-3": "dead"}}),
        back=1, force=True,
    ),
    "rollback_routes": Case(603, 3, SMALL, KEYED, {"budget_moves": 1},
                            rounds=({}, {"shift": 7}), back=1),
    "rollback_regions": Case(604, 2, SMALL, _regions(),
                             rounds=({"rates": RATES}, {"rates": OTHER_RATES}), back=1),
}  # fmt: skip


# ------------------------------------------------------------------ the comparison


def plans_of(settings: Settings, name: str) -> list[Figures]:
    """Figures of all plans of a case, in order."""
    return list(Job(settings, f"golden_{name}", CASES[name]).run())


def differences(name: str, expected: Sequence[Figures], actual: Sequence[Figures]) -> list[str]:
    """Differences between a case and the golden file, a line for each figure."""
    if len(expected) != len(actual):
        return [f"{name}: expected {len(expected)} plans, actual {len(actual)}"]
    return [
        f"{name}, plan {number}, {figure}: expected {was.get(figure)!r}, actual {now.get(figure)!r}"
        for number, (was, now) in enumerate(zip(expected, actual, strict=True), 1)
        for figure in sorted({*was, *now})
        if was.get(figure) != now.get(figure)
    ]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """One warehouse for all cases: each of them is a job of its own."""
    return open_warehouse(tmp_path_factory.mktemp("golden"))


@pytest.fixture(scope="module")
def golden() -> dict[str, list[Figures]]:
    return dict(json.loads(GOLDEN.read_text(encoding="utf-8")))


def test_the_golden_file_has_every_case_and_no_other(golden: Mapping[str, Any]) -> None:
    assert sorted(golden) == sorted(CASES)


@pytest.mark.parametrize("name", CASES)
def test_plans_are_as_in_the_golden_file(
    warehouse: Settings, golden: Mapping[str, list[Figures]], name: str
) -> None:
    found = differences(name, golden[name], plans_of(warehouse, name))
    assert not found, "\n".join(found)


def main(arguments: Sequence[str]) -> int:
    """Print the golden file as it would be now, or write it."""
    with tempfile.TemporaryDirectory() as folder:
        settings = open_warehouse(Path(folder))
        plans = {name: plans_of(settings, name) for name in CASES}
    text = json.dumps(plans, indent=1, sort_keys=True) + "\n"
    if list(arguments) == ["--write"]:
        GOLDEN.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
