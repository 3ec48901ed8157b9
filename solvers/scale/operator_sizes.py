"""How many instances each operator needs, where a job takes that up by one restart of all of them.

The demand is that of :mod:`solvers.scale.true_rate`: true rates, with backlog, through the
topology. Here it is not added up to nodes: each operator is held to its own boundaries. A change
restarts the whole job, so it has to pay for that. If it is for a backlog alone, the backlog must be
gone earlier in spite of the pause. If it gives up instances, these must save more until the end of
the cool-down than all instances lose in the pause.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from solvers.scale import true_rate
from solvers.scale.observation import Observation
from solvers.scale.policy import Policy
from solvers.scale.sizing import ROUNDING
from solvers.scale.true_rate import Demand
from solvers.scale.verdict import percent


@dataclass(frozen=True, slots=True)
class SizesHistory:
    """What earlier rounds found: the past needs, oldest first, and the last change of sizes."""

    needed: Sequence[Mapping[str, int]] = ()
    changed_at_s: float | None = None


@dataclass(frozen=True, slots=True)
class OperatorSize:
    """The instances of one operator before and after, and why."""

    operator_id: str
    before: int
    size: int
    needed: int | None
    """What the demand asks for, without limits; None if metrics are missing."""
    utilisation: float | None
    """Of the instances before, backlog included; 1.0 is full."""
    why: str
    would_change: str


@dataclass(frozen=True, slots=True)
class SizesDecision:
    """The instances of each operator, and why."""

    operators: tuple[OperatorSize, ...]
    reason: str
    binding: str
    would_change: str
    missing: tuple[str, ...] = field(default=())

    @property
    def sizes(self) -> dict[str, int]:
        """Instances of each operator under the plan."""
        return {each.operator_id: each.size for each in self.operators}

    @property
    def is_change(self) -> bool:
        """Whether an operator gets another number of instances."""
        return any(each.size != each.before for each in self.operators)


def decide_sizes(
    observation: Observation, before: Mapping[str, int], policy: Policy, history: SizesHistory
) -> SizesDecision:
    """Decide how many instances each operator is to have.

    Args:
        observation: what was measured. The busy time of an operator is that of its busiest
            instance times their number, so that skew counts: no size repairs it.
        before: instances of each operator now.
        policy: boundaries, limits and ``restart_s``, what a change costs.
        history: earlier rounds.

    Raises:
        InvalidInput: the topology has a cycle.
    """
    missing = (*observation.missing(), *true_rate.missing(observation))
    if missing:
        return _held(before, missing)
    demands = true_rate.demands_of(observation, policy)
    is_behind = true_rate.lag_s(observation) > policy.backlog_threshold_s
    rules = _Rules(policy, history, observation.at_s, is_behind=is_behind)
    found = [_sized(demand, before[demand.operator_id], rules) for demand in demands]
    return _decision(_paying(found, demands, policy))


@dataclass(frozen=True, slots=True)
class _Rules:
    """What decisions on all operators share."""

    policy: Policy
    history: SizesHistory
    at_s: float
    is_behind: bool

    @property
    def cooling_s(self) -> float:
        """Seconds of cool-down that are left."""
        if self.history.changed_at_s is None:
            return 0.0
        return max(0.0, self.history.changed_at_s + self.policy.cool_down_s - self.at_s)


def _held(before: Mapping[str, int], missing: Sequence[str]) -> SizesDecision:
    names = ", ".join(dict.fromkeys(missing))
    why = f"metrics are missing of {names}"
    return SizesDecision(
        tuple(
            OperatorSize(name, size, size, None, None, why, f"metrics of {names}")
            for name, size in before.items()
        ),
        reason=f"the sizes stay, because {why}",
        binding="missing metrics",
        would_change=f"metrics of {names}",
        missing=tuple(dict.fromkeys(missing)),
    )


def _sized(demand: Demand, before: int, rules: _Rules) -> OperatorSize:
    bounds = rules.policy.boundaries
    needed = _needed(demand, rules.policy)
    utilisation = _utilisation(demand, before)
    at = f"it is at {percent(utilisation)}"
    between = f"below {percent(bounds.lower)} or above {percent(bounds.upper)}"

    def verdict(size: int, why: str, would_change: str) -> OperatorSize:
        return OperatorSize(
            demand.operator_id, before, size, needed, utilisation, f"{at}, {why}", would_change
        )

    most = demand.max_parallelism
    if utilisation > bounds.upper:
        above = f"above {percent(bounds.upper)}"
        if most is not None and before >= most:
            return verdict(before, f"{above}, and {most} is the most", "more key groups")
        largest = before + max(1, math.floor(rules.policy.max_step_out * before))
        size = min(max(needed, before + 1), largest, most or largest)
        limited = f", of {needed} needed" if size < needed else ""
        return verdict(size, f"{above}{limited}", f"at or below {percent(bounds.upper)}")
    if utilisation >= bounds.lower or before == 1:
        return verdict(before, "within its boundaries", between)
    return _shrunk(verdict, before, needed, demand.operator_id, rules)


def _shrunk(verdict, before: int, needed: int, operator: str, rules: _Rules) -> OperatorSize:  # type: ignore[no-untyped-def]
    """Fewer instances, if nothing speaks against it."""
    policy = rules.policy
    below = f"below {percent(policy.boundaries.lower)}"
    if rules.is_behind:
        return verdict(before, f"{below}, but a backlog is being worked off", "no backlog")
    if rules.cooling_s > 0:
        return verdict(
            before, f"{below}, but the last change was too recent",
            f"{rules.cooling_s:.0f} s more of cool-down",
        )  # fmt: skip
    rounds = policy.stabilisation_rounds - 1
    past = [each[operator] for each in rules.history.needed if operator in each][-rounds or None :]
    if rounds and len(past) < rounds:
        return verdict(
            before, f"{below}, but in fewer than {rounds + 1} rounds so far", "more such rounds"
        )
    wanted = max([needed, *(past if rounds else [])])
    least = before - max(1, math.floor(policy.max_step_in * before))
    size = max(wanted, least, 1)
    if (before - size) / before < policy.min_benefit or size >= before:
        return verdict(before, f"{below}, but it needs {wanted} of {before}", "a smaller load")
    return verdict(size, below, f"at or above {percent(policy.boundaries.lower)}")


def _needed(demand: Demand, policy: Policy) -> int:
    """Instances that keep the busiest one at the target, and work off the backlog in time."""
    lanes = (
        demand.backlog
        + demand.steady * policy.restart_s / policy.catch_up_s
        + demand.steady / policy.boundaries.target
    )
    wanted = max(1, math.ceil(lanes * (1 - ROUNDING)))
    return min(wanted, demand.max_parallelism or wanted)


def _utilisation(demand: Demand, size: int) -> float:
    """Steady demand over what is left beside the backlog."""
    left = size - demand.backlog
    return demand.steady / left if left > 0 else math.inf


def _paying(
    found: Sequence[OperatorSize], demands: Sequence[Demand], policy: Policy
) -> list[OperatorSize]:
    """The sizes, or those of before if the change costs more than it brings."""
    if all(each.size == each.before for each in found):
        return list(found)
    grows = any(each.size > each.before for each in found)
    why = _why_no_gain(found, demands, policy) if grows else _why_no_saving(found, policy)
    if why is None:
        return list(found)
    return [
        each
        if each.size == each.before
        else OperatorSize(
            each.operator_id, each.before, each.before, each.needed, each.utilisation,
            f"{each.why}, but {why}", "a cheaper restart",
        )
        for each in found
    ]  # fmt: skip


def _why_no_gain(
    found: Sequence[OperatorSize], demands: Sequence[Demand], policy: Policy
) -> str | None:
    """Why more instances do not pay: the backlog alone asks for them, and would last longer."""
    if any(d.steady > policy.boundaries.upper * o.before for d, o in zip(demands, found, strict=True)):
        return None
    now = drain_s(demands, {o.operator_id: o.before for o in found}, policy, restart_s=0.0)
    then = drain_s(
        demands, {o.operator_id: o.size for o in found}, policy, restart_s=policy.restart_s
    )
    if then < now:
        return None
    return (
        f"the backlog is gone in {now:.0f} s without a restart, and in {then:.0f} s with one that "
        f"pauses {policy.restart_s:.1f} s"
    )


def _why_no_saving(found: Sequence[OperatorSize], policy: Policy) -> str | None:
    """Why fewer instances do not pay: what they save is less than what the pause costs."""
    saved = sum(each.before - each.size for each in found) * policy.cool_down_s
    lost = sum(each.size for each in found) * policy.restart_s
    if saved > lost:
        return None
    return f"that saves {saved:.0f} instance-seconds, and the restart costs {lost:.0f}"


def drain_s(
    demands: Sequence[Demand], sizes: Mapping[str, int], policy: Policy, restart_s: float
) -> float:
    """Seconds until the backlog is gone; infinite if it grows.

    Args:
        demands: demand of each operator.
        sizes: instances of each operator.
        policy: ``catch_up_s``, which the backlog is given in.
        restart_s: pause before these sizes run.
    """
    longest = 0.0
    for demand in demands:
        waiting = demand.backlog * policy.catch_up_s + demand.steady * restart_s
        spare = sizes[demand.operator_id] - demand.steady
        if waiting > 0:
            longest = max(longest, waiting / spare if spare > 0 else math.inf)
    return restart_s + longest


def _decision(found: Sequence[OperatorSize]) -> SizesDecision:
    deciding = max(found, key=lambda o: (o.size != o.before, o.utilisation or 0.0))
    changed = [each for each in found if each.size != each.before]
    return SizesDecision(
        tuple(found),
        reason="; ".join(_sentence(each) for each in changed or [deciding]),
        binding=f"busy time of operator {deciding.operator_id}",
        would_change=f"operator {deciding.operator_id}: {deciding.would_change}",
    )


def _sentence(each: OperatorSize) -> str:
    if each.size == each.before:
        return f"operator {each.operator_id} stays at {each.before} instances, because {each.why}"
    return (
        f"operator {each.operator_id} goes from {each.before} to {each.size} instances, because "
        f"{each.why}"
    )
