"""How many nodes a job needs: one interface, one file for each policy, one guard for all.

``decide`` is pure: the same observation, policy and history give the same decision. The caller
keeps the history (``history.remember``). A new policy is one file with ``NAME`` and ``needs``, and
one line in ``METHODS``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ballast.contracts.errors import InvalidInput
from solvers.scale import forecast, from_load, guard, multi_resource, thresholds, true_rate
from solvers.scale.decision import Need, PastRound, ScalingAction, ScalingDecision, ScalingHistory
from solvers.scale.observation import (
    LAUNCHING,
    Edge,
    HotNode,
    NodeSample,
    Observation,
    OperatorSample,
    SourceSample,
)
from solvers.scale.policy import Boundaries, Policy

__all__ = [
    "LAUNCHING",
    "METHODS",
    "Boundaries",
    "Edge",
    "HotNode",
    "Need",
    "NodeSample",
    "Observation",
    "OperatorSample",
    "PastRound",
    "Policy",
    "ScalingAction",
    "ScalingDecision",
    "ScalingHistory",
    "SourceSample",
    "decide",
]

Method = Callable[[Observation, Policy, ScalingHistory], tuple[Need, ...]]

METHODS: Mapping[str, Method] = {
    thresholds.NAME: thresholds.needs,
    from_load.NAME: from_load.needs,
    true_rate.NAME: true_rate.needs,
    multi_resource.NAME: multi_resource.needs,
    forecast.NAME: forecast.needs,
}


def decide(observation: Observation, policy: Policy, history: ScalingHistory) -> ScalingDecision:
    """Decide how many nodes each cluster is to have.

    Args:
        observation: what was measured in the statistics period.
        policy: the method and its limits.
        history: past rounds, oldest first.

    Raises:
        InvalidInput: there is no such method, or the method cannot size this job.
    """
    if policy.method not in METHODS:
        raise InvalidInput(
            f"there is no scaling policy {policy.method!r}",
            value=policy.method,
            allowed=", ".join(METHODS),
        )
    missing = observation.missing()
    if policy.method == true_rate.NAME:
        missing += true_rate.missing(observation)
    if missing:
        return guard.hold_without_metrics(observation, missing)
    if history.last is not None and observation.at_s < history.last.at_s:
        return guard.hold_for_the_clock(observation, history.last.at_s)
    needs = METHODS[policy.method](observation, policy, history)
    return guard.judge(observation, policy, history, needs)
