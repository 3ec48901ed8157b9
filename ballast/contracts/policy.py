"""The job policy: the fields of ``policies/<job>.yaml``, checked on load.

Every error names the file, the field, the value and what is allowed. A method that does not fit the
job is refused and not ignored.
"""

from __future__ import annotations

import json
import math
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import ConfigDict, Field, ValidationError, model_validator

from ballast.contracts.engine import EnginePolicy, SparkEngine, check_engine
from ballast.contracts.errors import PolicyError
from ballast.contracts.freeze import FreezePolicy
from ballast.contracts.method_rules import method_misfit
from ballast.contracts.methods import MethodNeed, PlanningProblem, methods_of
from ballast.contracts.regions import RegionPolicy, check_regions
from ballast.contracts.review import ReviewPolicy
from ballast.contracts.rules import LabelledNode, RulesPolicy, check_rules
from ballast.contracts.settings import JOB_NAME_PATTERN
from ballast.contracts.step_limits import StepLimits
from ballast.contracts.strict_model import StrictModel

Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,62}$")]
Seconds = Annotated[float, Field(strict=True, gt=0, le=86_400 * 7, allow_inf_nan=False)]
Amount = Annotated[float, Field(strict=True, gt=0, le=1e15, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(strict=True, ge=0, le=1e15, allow_inf_nan=False)]

Share = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
Wait = Annotated[float, Field(strict=True, ge=0, le=86_400 * 7, allow_inf_nan=False)]

Resource = Literal["cpu", "memory", "network"]
ScalingMethod = Literal["thresholds", "from_load", "true_rate", "multi_resource", "forecast"]
Weight = Annotated[float, Field(strict=True, ge=1e-6, le=1e6, allow_inf_nan=False)]

MEASURING_METHODS = ("auto", "fewest_moves")
"""Methods that can stop improving a plan where that cannot be measured."""
RESOURCES = ("cpu", "memory", "network")
# Parameters of scaling that only some methods use.
METHOD_FIELDS = {
    "true_rate": ("catch_up_s", "restart_s", "backlog_threshold_s", "busy_per_node"),
    "forecast": ("season_s", "horizon_s"),
    "multi_resource forecast": ("limits",),
}

# Fields, by section, that only one way to trade load for traffic uses.
TRADE_FIELDS = {
    "lexicographic": (
        ("objective", "max_load_distance_pct"),
        ("thresholds", "min_improvement_pct"),
        ("thresholds", "good_enough_pct"),
        ("thresholds", "min_collocation_gain_pct"),
    ),
    "weighted": (
        ("objective", "traffic_weight"),
        ("objective", "load_weight"),
        ("thresholds", "min_weighted_gain"),
    ),
}

# CPU seconds of a record between two nodes, as `make bench BENCH=serialise` printed them for the
# flights' records: first values, never tuned.
SEND_CPU_S = 1e-6
RECEIVE_CPU_S = 1e-6


class OperatorPolicy(StrictModel):
    """An operator of the job and how its input is partitioned."""

    id: Name
    key_groups: Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
    partition_key: Annotated[tuple[Name, ...], Field(min_length=1)]


class EdgePolicy(StrictModel):
    """Records flow from one operator to another."""

    source: Annotated[Name, Field(alias="from")]
    target: Annotated[Name, Field(alias="to")]

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class CapacityPolicy(StrictModel):
    """The capacity of a node; a resource that is not named is not limited."""

    cpu_cores: Amount = 1.0
    memory_bytes: Amount | None = None
    network_bytes_per_s: Amount | None = None


class NodePolicy(StrictModel):
    """A node that the job may use."""

    id: Name
    cluster: Name = "main"
    rack: Name = "rack-1"
    labels: tuple[Name, ...] = ()
    """What rules may ask of a node, such as ``ssd``."""
    capacity: CapacityPolicy = CapacityPolicy()
    draining: Annotated[bool, Field(strict=True)] = False
    spare: Annotated[bool, Field(strict=True)] = False
    """Not used until a plan adds it; requires a scaling section."""


class ObjectivePolicy(StrictModel):
    """The objective of plans, and the resources that it counts."""

    kind: Literal["balance", "joint"] = "balance"
    resources: Annotated[tuple[Resource, ...], Field(min_length=1)] = ("cpu",)
    weights: dict[Resource, Weight] = {}  # noqa: RUF012 - pydantic copies it
    """The weight of a resource in the load distance; 1 where it is not named."""
    caps: tuple[Resource, ...] = ()
    """Resources that only have to fit each node's capacity and are not balanced."""
    max_load_distance_pct: Annotated[
        float, Field(strict=True, gt=0, le=1000, allow_inf_nan=False)
    ] = 10.0
    """Joint plans keep traffic within nodes while the load distance stays at or below this."""
    trade: Literal["lexicographic", "weighted"] = "lexicographic"
    """How a joint plan trades load for traffic: the load bound first, or by weights."""
    traffic_weight: Weight = 1.0
    """The value of one percent of traffic saved, if the trade is weighted."""
    load_weight: Weight = 1.0
    """The cost of one percent of load distance, if the trade is weighted."""


class LimitsPolicy(StrictModel):
    """Limits on the cost of a plan; None does not limit."""

    moves: Annotated[int, Field(strict=True, ge=0, le=10_000_000)] | None = None
    bytes: Annotated[int, Field(strict=True, ge=0, le=10**15)] | None = None
    pause_s: Annotated[float, Field(strict=True, ge=0, le=1e6, allow_inf_nan=False)] | None = None


class BudgetPolicy(LimitsPolicy):
    """The budget of one plan; None does not limit."""

    first_plan: LimitsPolicy | None = None
    """The budget of a job's first plan; null: the same as of every other plan."""

    def of(self, parent_version: int) -> LimitsPolicy:
        """The budget of a plan that replaces a version; version 0 is before the first plan."""
        return self if self.first_plan is None or parent_version != 0 else self.first_plan


class TakeUpPolicy(StrictModel):
    """How a job takes a plan up; by default it makes all moves between two micro-batches.

    With a limit the moves are divided into steps, and a step is made before each micro-batch.
    """

    moves_per_batch: Annotated[int, Field(strict=True, ge=1, le=10_000_000)] | None = None
    """The most key groups that are moved before one micro-batch."""
    bytes_per_batch: Annotated[int, Field(strict=True, ge=1, le=10**15)] | None = None
    """The most bytes of state that are moved before one micro-batch. A key group that is larger is
    moved alone."""

    @property
    def limits(self) -> StepLimits:
        """What one step may move."""
        return StepLimits(self.moves_per_batch, self.bytes_per_batch)


class PausePolicy(StrictModel):
    """First values of the pause model, pause = sum over moves of (c0 + alpha x bytes)."""

    c0_s: NonNegative = 0.005
    s_per_byte: NonNegative = 1e-8


class TrafficPolicy(StrictModel):
    """The cost of a record between two nodes.

    The CPU times are first values (`make bench BENCH=serialise` measures them); later they are
    learned from the outcomes of plans. The prices compare a record between racks with a record
    within a rack; a record within a node costs nothing.
    """

    send_cpu_s: NonNegative = SEND_CPU_S
    receive_cpu_s: NonNegative = RECEIVE_CPU_S
    within_rack_price: Amount = 1.0
    between_racks_price: Amount = 1.0


class GatePolicy(StrictModel):
    """The price of moves in a joint plan, in records between nodes that they have to save."""

    records_per_byte: NonNegative = 0.02
    """The price of a byte of moved state."""
    records_per_pause_s: NonNegative = 0.0
    """The price of a second of pause."""
    first_life_s: Seconds = 3600.0
    """How long a gain is assumed to last, until it is learned from outcomes of plans."""


class RoutingPolicy(StrictModel):
    """Routing of single keys by joint plans (operators with state_by_key)."""

    method: Literal["sticky", "metis"] = "sticky"
    """How keys are grouped; docs/methods.md has both."""
    edges: tuple[EdgePolicy, ...] = ()
    """Edges whose keys are routed; operators with the partition key of an end follow that end."""
    max_routes: Annotated[int, Field(strict=True, ge=1, le=10_000_000)] = 100_000
    """The most keys of an operator that have a route."""
    max_imbalance: Annotated[float, Field(strict=True, ge=1, le=100, allow_inf_nan=False)] = 1.1
    """The most records of a node, as a multiple of the mean, for the keys of each end. It holds in
    the last period and in every weighted history of the periods before."""
    memory_rounds: Annotated[int, Field(strict=True, ge=0, le=50)] = 8
    """The number of earlier rounds whose key statistics count as well."""


class SplitsPolicy(StrictModel):
    """Hot keys: reports name them, and plans may split them over several key groups (ADR 73)."""

    operators: tuple[Name, ...] = ()
    """Operators whose keys plans may split; each declares in the job how partial states merge."""
    max_parts: Annotated[int, Field(strict=True, ge=2, le=64)] = 8
    """The most key groups of one key."""
    max_keys: Annotated[int, Field(strict=True, ge=1, le=100)] = 8
    """The most keys that are split at a time."""
    join_below: Annotated[float, Field(strict=True, gt=0, le=1, allow_inf_nan=False)] = 0.5
    """A key is joined again when its load is below this share of the mean load of a node. It is
    split when its load alone is above the mean and what the load distance may be."""


def _method_names(schema: dict[str, Any]) -> None:
    """Let editors know the methods. Which of them fit is checked when the policy is read."""
    problems = (PlanningProblem.BALANCE, PlanningProblem.JOINT)
    names = [name for problem in problems for name in methods_of(problem)]
    schema["enum"] = list(dict.fromkeys(names))


class SolverPolicy(StrictModel):
    """The method of the solver, its time limit and its seed."""

    method: Annotated[Name, Field(json_schema_extra=_method_names)] = "auto"
    """One of the methods for the objective; docs/methods.md has all of them."""
    params: dict[str, Any] = {}  # noqa: RUF012 - pydantic copies it
    """Parameters of the method by name, as in docs/methods.md."""
    first_placement: Name | None = None
    """A placement from scratch (docs/methods.md) that a job's first plan tries before the method,
    within ``budgets.first_plan`` where that is given; null: the method makes the first plan too."""
    seconds: Annotated[float, Field(strict=True, gt=0, le=3600, allow_inf_nan=False)] = 5.0
    seed: Annotated[int, Field(strict=True, ge=0, le=2**31 - 1)] = 0
    precision: Literal["measured", "exact"] = "measured"
    """measured: a plan stops improving where the improvement could not be measured any more;
    exact: it goes on to the smallest load distance that its budget allows. ``measured`` needs a
    method of ``MEASURING_METHODS``."""


class BoundariesPolicy(StrictModel):
    """Utilisation of the nodes, 1.0 is full.

    Above ``upper`` nodes are added, below ``lower`` nodes are removed, so that it comes close to
    ``target``. The distance between them is the hysteresis.
    """

    lower: Share = 0.4
    target: Share = 0.65
    upper: Share = 0.85

    @model_validator(mode="after")
    def _check_order(self) -> BoundariesPolicy:
        if not self.lower < self.target < self.upper:
            raise ValueError(
                f"the thresholds cross: lower {self.lower:g}, target {self.target:g}, upper "
                f"{self.upper:g}; they must rise: lower < target < upper"
            )
        return self


class ScalingPolicy(StrictModel):
    """How the number of nodes is decided (docs/solvers-scale.md).

    Until a plan changes it, the nodes in use are those of the policy that are not spare.
    """

    method: ScalingMethod = "thresholds"
    resource: Resource = "cpu"
    boundaries: BoundariesPolicy = BoundariesPolicy()
    limits: dict[Resource, BoundariesPolicy] = {}  # noqa: RUF012 - pydantic copies it
    """Boundaries of resources that have their own (multi_resource and forecast)."""
    min_nodes: Annotated[int, Field(strict=True, ge=1, le=100_000)] = 1
    max_nodes: Annotated[int, Field(strict=True, ge=1, le=100_000)] | None = None
    """Nodes of all clusters together; by default all nodes of the policy."""
    interval_s: Seconds = 600.0
    """The time between two rounds, and the length of the load series."""
    launch_s: Wait = 0.0
    shutdown_s: Wait = 0.0
    billing_s: Seconds | None = None
    """The billing interval, which is paid in full once it has begun; null: billed by use."""
    cool_down_s: Wait = 1200.0
    """How long after a change no node is removed, and none is added ahead of need."""
    stabilisation_rounds: Annotated[int, Field(strict=True, ge=1, le=1000)] = 3
    """A node is removed only after this many rounds in a row with low utilisation."""
    min_benefit: Share = 0.1
    max_step_out: Annotated[float, Field(strict=True, gt=0, le=100, allow_inf_nan=False)] = 1.0
    max_step_in: Share = 0.5
    min_coverage: Share = 0.5
    max_full_windows: Share = 0.1
    max_drain_rounds: Annotated[int, Field(strict=True, ge=1, le=1000)] = 10
    """The number of rounds after which a draining node must be empty."""
    catch_up_s: Seconds = 1800.0
    restart_s: Wait = 60.0
    backlog_threshold_s: Wait = 300.0
    busy_per_node: Amount = 1.0
    season_s: Annotated[float, Field(strict=True, gt=0, le=86_400 * 366)] = 86_400.0
    horizon_s: Seconds | None = None
    memory_rounds: Annotated[int, Field(strict=True, ge=1, le=100_000)] = 2016
    """The number of earlier rounds that count."""

    @model_validator(mode="after")
    def _check_consistency(self) -> ScalingPolicy:
        for method, fields in METHOD_FIELDS.items():
            given = [f for f in fields if getattr(self, f) != type(self).model_fields[f].default]
            if given and self.method not in method.split():
                raise ValueError(
                    f"{given[0]} is a parameter of {method.replace(' ', ' and ')}, and method is "
                    f"{self.method!r}; leave it out, or choose another method"
                )
        if self.max_nodes is not None and self.max_nodes < self.min_nodes:
            raise ValueError(
                f"max_nodes is {self.max_nodes}; it must be at least min_nodes, {self.min_nodes}"
            )
        if self.memory_rounds < self.stabilisation_rounds:
            raise ValueError(
                f"memory_rounds is {self.memory_rounds}; it must be at least "
                f"stabilisation_rounds, {self.stabilisation_rounds}"
            )
        return self


class ThresholdPolicy(StrictModel):
    """Thresholds on the metrics of a plan and on its gain."""

    min_improvement_pct: NonNegative = 1.0
    """A plan must lower the load distance by at least this much, in percent of the mean."""
    good_enough_pct: NonNegative = 2.0
    """At or below this load distance no plan is made, in percent of the mean."""
    min_collocation_gain_pct: NonNegative = 1.0
    """A joint plan that does not improve the load must save at least this many percent of the
    traffic, by its price: within nodes or within racks."""
    min_weighted_gain: NonNegative = 1.0
    """If the trade is weighted, the least weighted gain of a plan."""
    complete_windows_share: Annotated[
        float, Field(strict=True, gt=0, le=1, allow_inf_nan=False)
    ] = 0.8
    """Share of the period's windows in which every node and key group must have reported."""
    late_after_s: Seconds = 300.0
    """A row that is written later than this after the end of its window is rejected."""
    broken_promise_pct: NonNegative = 10.0
    """A promise is reported as broken if the measured load distance is above the promised one by
    more than this, in percent of the mean."""
    min_gain_chance: Annotated[float, Field(strict=True, ge=0.5, lt=1, allow_inf_nan=False)] = 0.95
    """A plan must be measurably better than the placement in force with at least this chance. The
    chance of a plan from noise alone is one minus this over ten rounds."""
    stop_after_broken_promises: Annotated[int, Field(strict=True, ge=1, le=1000)] | None = 3
    """A job stops planning by itself after this many plans in a row whose measured load distance
    was outside of the promised interval; null: it never stops."""
    operator_skew_pct: NonNegative = 100.0
    """How far a node or rack may be above its fair share of one operator's load or one edge's
    records, in percent of the fair share. From there on a plan or a message is due although the
    load of the whole job is level. What no placement can avoid does not count."""


class JobPolicy(StrictModel):
    """Everything that Ballast knows in advance about a streaming job."""

    job: Annotated[str, Field(pattern=f"^{JOB_NAME_PATTERN}$")]
    description: str = ""
    engine: EnginePolicy = SparkEngine()
    """The streaming engine that the job runs on."""
    schedule: str | None = None
    schedule_on_metrics: Annotated[bool, Field(strict=True)] = False
    """Whether an event of the asset ballast://metrics/<job> also starts a run."""
    late_run_s: Seconds | None = None
    """A run that has not ended this long after it was queued is reported as late."""
    window_s: Seconds
    statistics_period_s: Seconds
    dead_after_windows: Annotated[int, Field(strict=True, ge=2, le=100_000)] = 60
    operators: Annotated[tuple[OperatorPolicy, ...], Field(min_length=1)]
    edges: tuple[EdgePolicy, ...] = ()
    nodes: Annotated[tuple[NodePolicy, ...], Field(min_length=1)]
    objective: ObjectivePolicy = ObjectivePolicy()
    budgets: BudgetPolicy = BudgetPolicy()
    take_up: TakeUpPolicy = TakeUpPolicy()
    """How the job takes a plan up: at once or in steps."""
    pause: PausePolicy = PausePolicy()
    traffic: TrafficPolicy = TrafficPolicy()
    gate: GatePolicy = GatePolicy()
    routing: RoutingPolicy = RoutingPolicy()
    splits: SplitsPolicy | None = None
    """Hot keys; null: keys are not looked at for this."""
    solver: SolverPolicy = SolverPolicy()
    review: ReviewPolicy = ReviewPolicy()
    thresholds: ThresholdPolicy = ThresholdPolicy()
    scaling: ScalingPolicy | None = None
    """How the number of nodes is decided; null: it does not change."""
    regions: tuple[RegionPolicy, ...] = ()
    """Stateless ordered regions of the job; plans set the weights of their workers."""
    rules: RulesPolicy = RulesPolicy()
    """What no plan may do."""
    freezes: tuple[FreezePolicy, ...] = ()
    """Times in which plans are drafted and not published."""

    @model_validator(mode="after")
    def _check_consistency(self) -> JobPolicy:
        _check_unique("operators", [operator.id for operator in self.operators])
        _check_unique("nodes", [node.id for node in self.nodes])
        _check_schedule(self.schedule)
        _check_edges(self)
        _check_windows(self)
        _check_objective(self.objective)
        _check_trade(self)
        _check_capacities(self)
        _check_prices(self.traffic)
        _check_routing(self)
        _check_splits(self)
        _check_spares(self)
        if self.scaling is not None:
            _check_scaling(self, self.scaling)
        check_regions(self.regions, [operator.id for operator in self.operators])
        _check_unique("freezes", [freeze.name for freeze in self.freezes])
        check_rules(
            self.rules,
            [LabelledNode(node.id, node.labels, node.draining, node.rack) for node in self.nodes],
            {operator.id: operator.key_groups for operator in self.operators},
        )
        check_engine(self)
        return self

    @property
    def windows_per_period(self) -> int:
        """Number of windows in a statistics period."""
        return round(self.statistics_period_s / self.window_s)

    @property
    def has_load_series(self) -> bool:
        """Whether snapshots have loads over time: for scaling, or because the method needs them."""
        entry = methods_of(PlanningProblem(self.objective.kind)).get(self.solver.method)
        needs_series = entry is not None and MethodNeed.SERIES in entry.needs
        return self.scaling is not None or needs_series

    @property
    def split_operators(self) -> tuple[str, ...]:
        """The operators whose keys plans may split."""
        return () if self.splits is None else self.splits.operators

    @property
    def needs_keys(self) -> bool:
        """Whether snapshots have the heaviest keys: plans route them, or look for hot ones."""
        return bool(self.routing.edges) or self.splits is not None

    @property
    def entry_operators(self) -> tuple[str, ...]:
        """Operators that receive records from sources only."""
        fed = {edge.target for edge in self.edges}
        return tuple(operator.id for operator in self.operators if operator.id not in fed)

    def node(self, node_id: str) -> NodePolicy:
        """The node of that id."""
        return next(node for node in self.nodes if node.id == node_id)

    def operator(self, operator_id: str) -> OperatorPolicy:
        """The operator of that id."""
        return next(operator for operator in self.operators if operator.id == operator_id)

    def region(self, region_id: str) -> RegionPolicy | None:
        """The ordered region of that id; None if the job has none."""
        return next((region for region in self.regions if region.id == region_id), None)

    def followers(self, operator_id: str) -> tuple[str, ...]:
        """The operator, then the operators with the same partition key."""
        key = self.operator(operator_id).partition_key
        others = [o.id for o in self.operators if o.partition_key == key and o.id != operator_id]
        return (operator_id, *others)

    def to_json(self) -> str:
        """The policy as canonical JSON; :func:`policy_from_json` reads it."""
        return json.dumps(self.model_dump(mode="json", by_alias=True), sort_keys=True)


def policy_from_json(text: str) -> JobPolicy:
    """The policy that :meth:`JobPolicy.to_json` wrote."""
    return parse_policy(json.loads(text), "snapshot")


def load_policy(path: Path) -> JobPolicy:
    """Read and check ``<job>.yaml``.

    Raises:
        PolicyError: the file cannot be read, is not a valid policy, or has the name of another job.
    """
    file = str(path)
    if not path.is_file():
        raise PolicyError(
            file, "file", "does not exist", remedy="name a file like policies/<job>.yaml"
        )
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), Loader=_UniqueKeyLoader)  # noqa: S506
    except OSError as error:
        raise PolicyError(
            file, "file", f"cannot be read: {error.strerror}", remedy="make it readable"
        ) from error
    except (yaml.YAMLError, ValueError) as error:
        # ValueError: an impossible date, or text that is not UTF-8.
        raise PolicyError(
            file, "file", f"is not YAML: {_one_line(error)}", remedy="correct the marked place"
        ) from error
    policy = parse_policy(data, file)
    if policy.job != path.stem:
        raise PolicyError(
            file, "job", f"is {policy.job!r} but the file is named {path.stem!r}",
            value=policy.job, allowed=repr(path.stem), remedy="rename one of the two",
        )  # fmt: skip
    return policy


def parse_policy(data: Any, file: str) -> JobPolicy:
    """The policy in the content of a file.

    Raises:
        PolicyError: the content is not a valid policy.
    """
    if not isinstance(data, dict):
        raise PolicyError(
            file, "file", f"holds a {type(data).__name__}, not fields",
            value=data, allowed="a YAML mapping", remedy="start with `job: <name>`",
        )  # fmt: skip
    try:
        policy = JobPolicy.model_validate(data)
    except ValidationError as error:
        raise _policy_error(file, error) from error
    if not re.fullmatch(JOB_NAME_PATTERN, policy.job):
        raise PolicyError(file, "job", f"is {policy.job!r}", value=policy.job,
                          allowed=JOB_NAME_PATTERN)  # fmt: skip
    _refuse_misfit(policy, file)
    return policy


def policy_files(folder: Path) -> list[Path]:
    """The policy files of a folder, sorted by name."""
    return sorted(folder.glob("*.yaml"))


def policy_schema() -> dict[str, Any]:
    """JSON schema of a policy file, for editors."""
    schema = JobPolicy.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


class _UniqueKeyLoader(yaml.SafeLoader):
    """YAML's safe loader, with an error for a key that is given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = next((key for key in keys if keys.count(key) > 1), None)
        if twice is not None:
            raise yaml.constructor.ConstructorError(
                None, None, f"the key {twice!r} is given twice", node.start_mark
            )
        return super().construct_mapping(node, deep)


def _policy_error(file: str, error: ValidationError) -> PolicyError:
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"]) or "policy"
    more = error.error_count() - 1
    value = first["input"]
    if first["type"] == "value_error":
        problem, allowed = first["msg"].removeprefix("Value error, "), None
    elif first["type"] == "missing":
        problem, allowed = "is missing", None
    elif first["type"] == "extra_forbidden":
        problem, allowed = "is not a field of a policy", "see policies/policy.schema.json"
    else:
        problem, allowed = f"is {value!r}", _one_line(first["msg"])
    suffix = f" (and {more} more)" if more else ""
    return PolicyError(
        file, field, problem + suffix, value=value, allowed=allowed,
        remedy="edit the file and run `ballast policy check FILE`",
    )  # fmt: skip


def _refuse_misfit(policy: JobPolicy, file: str) -> None:
    misfit = method_misfit(policy)
    if misfit is not None:
        raise PolicyError(
            file, misfit.field, misfit.problem,
            value=misfit.value, allowed=misfit.allowed, remedy=misfit.remedy,
        )  # fmt: skip


def _check_unique(field: str, ids: list[str]) -> None:
    twice = next((name for name in ids if ids.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"{field}: {twice!r} is given twice; each may be given once")


def _check_schedule(schedule: str | None) -> None:
    fields = schedule.split() if schedule is not None else ["*"] * 5
    if len(fields) != 5 or not all(re.fullmatch(r"[0-9A-Za-z*/,#-]+", field) for field in fields):
        raise ValueError(
            f"schedule is {schedule!r}; it must be null or cron with five fields: minute, hour, "
            "day of month, month, day of week"
        )


def _check_edges(policy: JobPolicy) -> None:
    _check_unique("edges", [f"{edge.source} -> {edge.target}" for edge in policy.edges])
    _check_unique("objective.resources", list(policy.objective.resources))
    known = [operator.id for operator in policy.operators]
    for edge in policy.edges:
        for end in (edge.source, edge.target):
            if end not in known:
                raise ValueError(f"edges: {end!r} is not an operator; allowed: {', '.join(known)}")
    _check_acyclic([(edge.source, edge.target) for edge in policy.edges])


def _check_acyclic(edges: list[tuple[str, str]]) -> None:
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for source, target in edges:
        sorter.add(target, source)
    try:
        sorter.prepare()
    except CycleError as error:
        raise ValueError(f"edges: {' -> '.join(error.args[1])} is a cycle") from error


def _check_windows(policy: JobPolicy) -> None:
    windows = policy.statistics_period_s / policy.window_s
    if not math.isclose(windows, round(windows)) or round(windows) < 1:
        raise ValueError(
            f"statistics_period_s is {policy.statistics_period_s:g}; it must be a multiple of "
            f"window_s, {policy.window_s:g}"
        )
    if policy.window_s != round(policy.window_s, 3):
        raise ValueError(f"window_s is {policy.window_s:g}; it must be in whole milliseconds")


def _check_objective(objective: ObjectivePolicy) -> None:
    _check_unique("objective.caps", list(objective.caps))
    known = ", ".join(objective.resources)
    for field, names in (("weights", tuple(objective.weights)), ("caps", objective.caps)):
        for name in names:
            if name not in objective.resources:
                raise ValueError(
                    f"objective.{field} has {name!r}, which is not in objective.resources; "
                    f"allowed: {known}"
                )
    if set(objective.caps) == set(objective.resources):
        raise ValueError(
            "objective.caps names every resource; leave at least one of them to be balanced"
        )
    weighted_cap = next((name for name in objective.caps if name in objective.weights), None)
    if weighted_cap is not None:
        raise ValueError(
            f"objective.weights has {weighted_cap!r}, which is in objective.caps and so is not "
            "balanced; leave it out of one of the two"
        )


def _check_trade(policy: JobPolicy) -> None:
    """Refuse a field that the chosen trade does not use, because its author relies on it."""
    objective = policy.objective
    if objective.trade == "weighted" and objective.kind != "joint":
        raise ValueError(
            f"objective.trade is 'weighted' and objective.kind is {objective.kind!r}; load is "
            "traded for traffic where it is 'joint'"
        )
    other = "weighted" if objective.trade == "lexicographic" else "lexicographic"
    for section, name in TRADE_FIELDS[other]:
        part = getattr(policy, section)
        if getattr(part, name) != type(part).model_fields[name].default:
            raise ValueError(
                f"{section}.{name} has no effect if objective.trade is {objective.trade!r}; "
                f"leave it out, or set objective.trade to {other!r}"
            )


def _check_routing(policy: JobPolicy) -> None:
    edges = policy.routing.edges
    if edges and policy.objective.kind != "joint":
        raise ValueError(
            f"routing.edges are given and objective.kind is {policy.objective.kind!r}; keys are "
            "routed where it is 'joint'"
        )
    known = {(edge.source, edge.target) for edge in policy.edges}
    ends: list[str] = []
    for edge in edges:
        if (edge.source, edge.target) not in known:
            raise ValueError(
                f"routing.edges: {edge.source!r} -> {edge.target!r} is not one of edges"
            )
        ends += [*policy.followers(edge.source), *policy.followers(edge.target)]
    twice = next((name for name in ends if ends.count(name) > 1), None)
    if twice is not None:
        raise ValueError(
            f"routing.edges: the keys of {twice!r} would be routed twice, itself or as one with "
            "the partition key of an end; leave one of the edges out"
        )


def _check_splits(policy: JobPolicy) -> None:
    """Refuse splits that no job could follow, and sections whose plans do not know splits."""
    _check_unique("splits.operators", list(policy.split_operators))
    known = [operator.id for operator in policy.operators]
    for name in policy.split_operators:
        if name not in known:
            raise ValueError(
                f"splits.operators: {name!r} is not an operator; allowed: {', '.join(known)}"
            )
        sent_to = next((edge.target for edge in policy.edges if edge.source == name), None)
        if sent_to is not None:
            raise ValueError(
                f"splits.operators: {name!r} sends records to {sent_to!r}, which would be made "
                "from a part of a key's state; allowed: the last operators of a path"
            )
    if policy.split_operators and policy.objective.kind != "balance":
        raise ValueError(
            f"splits.operators are given and objective.kind is {policy.objective.kind!r}; keys are "
            "split where it is 'balance'"
        )
    if policy.split_operators and policy.rules.headroom is not None:
        raise ValueError(
            "splits.operators are given and so is rules.headroom, which counts the loads that were "
            "measured, with the key on one node; leave one of the two out"
        )
    if policy.split_operators and policy.scaling is not None:
        raise ValueError(
            "splits.operators are given and so is scaling; keys are split where the nodes stay: "
            "leave one of the two out"
        )


def _check_prices(traffic: TrafficPolicy) -> None:
    if traffic.within_rack_price > traffic.between_racks_price:
        raise ValueError(
            f"traffic.within_rack_price is {traffic.within_rack_price:g}; it may be at most "
            f"traffic.between_racks_price, {traffic.between_racks_price:g}"
        )


def _check_capacities(policy: JobPolicy) -> None:
    fields = {"memory": "memory_bytes", "network": "network_bytes_per_s"}
    for resource in policy.objective.resources:
        field = fields.get(resource)
        for node in policy.nodes:
            if field and getattr(node.capacity, field) is None:
                raise ValueError(
                    f"objective.resources has {resource!r}, but node {node.id!r} has no "
                    f"capacity.{field}; give every node one"
                )
    if all(node.draining for node in policy.nodes):
        raise ValueError("nodes: every node is draining; at least one must stay")


def _check_spares(policy: JobPolicy) -> None:
    spare = [node for node in policy.nodes if node.spare]
    if spare and policy.scaling is None:
        raise ValueError(
            f"nodes: {spare[0].id!r} is spare and there is no scaling section, so nothing would "
            "ever use it; give one, or leave spare out"
        )
    both = next((node.id for node in spare if node.draining), None)
    if both is not None:
        raise ValueError(f"nodes: {both!r} is spare and draining; leave one of them out")
    if all(node.spare or node.draining for node in policy.nodes):
        raise ValueError("nodes: every node is spare or draining; at least one must be in use")


def _check_scaling(policy: JobPolicy, scaling: ScalingPolicy) -> None:
    largest = len(policy.nodes)
    for field in ("min_nodes", "max_nodes"):
        value = getattr(scaling, field)
        if value is not None and value > largest:
            raise ValueError(
                f"scaling.{field} is {value}; the policy has {largest} nodes, spare ones included"
            )
    named = {"resource": (scaling.resource,), "limits": tuple(scaling.limits)}
    for field, names in named.items():
        for name in names:
            if name not in policy.objective.resources:
                raise ValueError(
                    f"scaling.{field} has {name!r}, which is not in objective.resources; allowed: "
                    f"{', '.join(policy.objective.resources)}"
                )
    clusters = sorted({node.cluster for node in policy.nodes})
    if scaling.method == "true_rate" and len(clusters) > 1:
        raise ValueError(
            f"scaling.method is 'true_rate', which sizes one cluster, and nodes are in "
            f"{', '.join(clusters)}; use thresholds, or put them into one cluster"
        )
    if policy.statistics_period_s > scaling.interval_s:
        raise ValueError(
            f"scaling.interval_s is {scaling.interval_s:g}; it must be at least "
            f"statistics_period_s, {policy.statistics_period_s:g}"
        )


def _one_line(error: object) -> str:
    return " ".join(str(error).split())
