"""How many nodes a job needs: one interface, one file for each policy, one set of limits.

``decide`` is pure: the same observation, policy and history give the same decision. The caller
keeps the history (``history.remember``). A new policy is one file with ``NAME`` and ``needs``, and
one entry in ``METHODS``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ballast.contracts.errors import InvalidInput
from ballast.contracts.methods import MethodLimit, MethodNeed
from solvers.model.method import MethodFacts, by_name
from solvers.scale import (
    forecast,
    from_load,
    multi_resource,
    scaling_limits,
    thresholds,
    true_rate,
)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingMethod(MethodFacts):
    """A method that decides how many nodes each cluster needs. Its parameters are in the policy."""

    find_needs: Callable[[Observation, Policy, ScalingHistory], tuple[Need, ...]]


METHODS: Mapping[str, ScalingMethod] = by_name(
    ScalingMethod(
        name=thresholds.NAME,
        summary="brings the average load of each cluster to a target between two boundaries",
        paper="DODO, 7.1.1",
        needs=(MethodNeed.SERIES,),
        find_needs=thresholds.needs,
    ),
    ScalingMethod(
        name=from_load.NAME,
        summary="takes ceil(2w / (u + v)) nodes for the whole load w and the boundaries u and v",
        paper="AUTODASP17, ELB",
        needs=(MethodNeed.SERIES,),
        find_needs=from_load.needs,
    ),
    ScalingMethod(
        name=true_rate.NAME,
        summary="takes the nodes that the true rates of the operators need for the sources' rates",
        needs=(MethodNeed.SERIES, MethodNeed.TRAFFIC, MethodNeed.SOURCES),
        cannot=(MethodLimit.SEVERAL_CLUSTERS,),
        find_needs=true_rate.needs,
    ),
    ScalingMethod(
        name=multi_resource.NAME,
        summary="takes the nodes that the scarcest resource needs, each with its own boundaries",
        needs=(MethodNeed.SERIES,),
        find_needs=multi_resource.needs,
    ),
    ScalingMethod(
        name=forecast.NAME,
        summary="takes the nodes for the load that is forecast for when new nodes would run",
        needs=(MethodNeed.SERIES,),
        find_needs=forecast.needs,
    ),
)


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
        return scaling_limits.hold_without_metrics(observation, missing)
    if history.last is not None and observation.at_s < history.last.at_s:
        return scaling_limits.hold_for_the_clock(observation, history.last.at_s)
    needs = METHODS[policy.method].find_needs(observation, policy, history)
    return scaling_limits.decide_within_limits(observation, policy, history, needs)
