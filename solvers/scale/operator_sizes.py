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
from solvers.scale.cluster_size import percent
from solvers.scale.observation import Observation
from solvers.scale.policy import Policy
from solvers.scale.sizing import ROUNDING
from solvers.scale.true_rate import Demand


@dataclass(frozen=True, slots=True)
class SizesHistory:
    """What earlier rounds found: the past needs, oldest first, and the last change of sizes."""

    needed: Sequence[Mapping[str, int]] = ()
    changed_at_s: float | None = None

    def past_needs(self, operator: str, rounds: int) -> list[int]:
        """What an operator needed in the newest rounds, at most so many."""
        found = [each[operator] for each in self.needed if operator in each]
        return found[len(found) - rounds :] if len(found) > rounds else found


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


@dataclass(frozen=True, slots=True)
class _Present:
    """An operator as it is, from which verdicts on its size are made."""

    demand: Demand
    before: int
    needed: int
    utilisation: float

    def with_size(self, size: int, why: str, would_change: str) -> OperatorSize:
        return OperatorSize(
            self.demand.operator_id, self.before, size, self.needed, self.utilisation,
            f"it is at {percent(self.utilisation)}, {why}", would_change,
        )  # fmt: skip

    def kept(self, why: str, would_change: str) -> OperatorSize:
        return self.with_size(self.before, why, would_change)


def _sized(demand: Demand, before: int, rules: _Rules) -> OperatorSize:
    bounds = rules.policy.boundaries
    now = _Present(demand, before, _needed(demand, rules.policy), _utilisation(demand, before))
    if now.utilisation > bounds.upper:
        return _grown(now, rules.policy)
    if now.utilisation >= bounds.lower or before == 1:
        between = f"below {percent(bounds.lower)} or above {percent(bounds.upper)}"
        return now.kept("within its boundaries", between)
    return _shrunk(now, rules)


def _grown(now: _Present, policy: Policy) -> OperatorSize:
    """More instances, within one step and the most that there may be."""
    upper, most = percent(policy.boundaries.upper), now.demand.max_parallelism
    if most is not None and now.before >= most:
        return now.kept(f"above {upper}, and {most} is the most", "more key groups")
    largest = now.before + max(1, math.floor(policy.max_step_out * now.before))
    size = min(max(now.needed, now.before + 1), largest, most or largest)
    limited = f", of {now.needed} needed" if size < now.needed else ""
    return now.with_size(size, f"above {upper}{limited}", f"at or below {upper}")


def _shrunk(now: _Present, rules: _Rules) -> OperatorSize:
    """Fewer instances, if nothing speaks against it."""
    policy, before = rules.policy, now.before
    lower = percent(policy.boundaries.lower)
    if rules.is_behind:
        return now.kept(f"below {lower}, but a backlog is being worked off", "no backlog")
    if rules.cooling_s > 0:
        left = f"{rules.cooling_s:.0f} s more of cool-down"
        return now.kept(f"below {lower}, but the last change was too recent", left)
    rounds = policy.stabilisation_rounds - 1
    past = rules.history.past_needs(now.demand.operator_id, rounds)
    if len(past) < rounds:
        why = f"below {lower}, but in fewer than {rounds + 1} rounds so far"
        return now.kept(why, "more such rounds")
    wanted = max([now.needed, *past])
    least = before - max(1, math.floor(policy.max_step_in * before))
    size = max(wanted, least, 1)
    if size >= before or (before - size) / before < policy.min_benefit:
        return now.kept(f"below {lower}, but it needs {wanted} of {before}", "a smaller load")
    return now.with_size(size, f"below {lower}", f"at or above {lower}")


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
    upper = policy.boundaries.upper
    if any(d.steady > upper * o.before for d, o in zip(demands, found, strict=True)):
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
