"""Decisions of [DODO]: Algorithm 1 places operators on clusters, Algorithm 2 sizes the clusters.

Within a cluster topics are hashed to nodes by a ring with virtual nodes (7.1.3), and tweets go to
extractors evenly. ``evenly`` spreads everything, as 6.2 assumes and no hash does; the printed
figures are interpreted in this way. Moving an operator costs nothing here, in the paper's favour.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bench.scaling.course import STEP_S, STEPS, Course, Experiment
from bench.simulator.fleet import Fleet
from bench.simulator.pipeline import TOPICS, Source, topic_popularity
from solvers.model.problem import FloatArray, IntArray
from solvers.place import HashRing
from solvers.place.cluster_mapping import dynamic_mapping, mapping_after
from solvers.scale import LAUNCHING, NodeSample, Observation, Policy, ScalingHistory, decide

PERIODS = 8
"""Windows of load that Algorithm 1 uses; the paper does not print the number."""
LOAD_THRESHOLD = 0.15
CORRELATION_THRESHOLD = 1.1
"""The paper does not print the thresholds. Under a ramp all loads rise together, so any threshold
on the correlation of 1 or below would forbid the moves that the paper reports."""


@dataclass(frozen=True)
class Mapper:
    """The parts of [DODO] that are active; ``weighs`` means by the capacities of the clusters."""

    balances: bool = False
    weighs: bool = True
    evenly: bool = False
    policy: Policy | None = None


def run(experiment: Experiment, mapper: Mapper) -> Course:
    """Run operators on clusters under the experiment's ramp."""
    fleet = Fleet(experiment.launch_s)
    for cluster, count in enumerate(experiment.sizes):
        fleet.start([f"c{cluster}-{i}" for i in range(count)], str(cluster))
    mapping: IntArray = np.array(experiment.mapping)
    cost_s = np.array(experiment.cost_ms) / 1000.0
    source, course, history = Source(), Course(), ScalingHistory()
    passed: list[float] = []
    for step in range(experiment.steps):
        now_s = step * STEP_S
        sizes = _sizes(fleet, experiment, now_s)
        capable = _capable(fleet, mapping, cost_s, now_s, evenly=mapper.evenly)
        passed.append(source.step(experiment.ramp.at(now_s), capable, STEP_S))
        course.note(now_s, passed[-1], sizes.sum(), fleet.instance_hours(now_s + STEP_S))
        if (step + 1) % STEPS:
            continue
        series = np.outer(cost_s, passed[-PERIODS:])
        if mapper.balances and len(passed) >= PERIODS:
            mapping = _moved(mapping, series, sizes, mapper, course)
        if mapper.policy is not None:
            end_s = now_s + STEP_S
            seen = _observed(fleet, mapping, series[:, -STEPS:], sizes, end_s)
            decision = decide(seen, mapper.policy, history)
            history = history.remember(end_s, decision, mapper.policy.memory_rounds)
            _scaled(fleet, decision.after, decision.before, end_s)
    return course.ended(capable, fleet, now_s + STEP_S)


def _capable(
    fleet: Fleet, mapping: IntArray, cost_s: FloatArray, now_s: float, *, evenly: bool
) -> float:
    """Tweets per second at which the first node is full."""
    fullest = 0.0
    for cluster in set(mapping.tolist()):
        names = tuple(m.name for m in fleet.ready(now_s, str(cluster)))
        here = mapping == cluster
        # Extractors take any tweet; the other operators have topics of their own.
        spread = 1.0 if evenly else most_of_a_node(names)
        keyed = float(cost_s[1:][here[1:]].sum()) * spread
        fullest = max(fullest, (keyed + float(cost_s[0] * here[0])) / len(names))
    return 1.0 / fullest


@functools.cache
def most_of_a_node(names: tuple[str, ...]) -> float:
    """Records of the topics on the fullest node of a ring, divided by the mean."""
    ring = HashRing(dict.fromkeys(names, 1.0))
    owners = [ring.node_of(f"topic-{i}") for i in range(TOPICS)]
    load = dict.fromkeys(names, 0.0)
    for owner, popularity in zip(owners, topic_popularity().tolist(), strict=True):
        load[owner] += popularity
    return max(load.values()) * len(names) / sum(load.values())


def _sizes(fleet: Fleet, experiment: Experiment, now_s: float) -> FloatArray:
    counts = [len(fleet.ready(now_s, str(c))) for c in range(len(experiment.sizes))]
    return np.array(counts, dtype=np.float64)


def _moved(
    mapping: IntArray, series: FloatArray, sizes: FloatArray, mapper: Mapper, course: Course
) -> IntArray:
    moves = dynamic_mapping(
        series,
        mapping,
        sizes,
        load_threshold=LOAD_THRESHOLD,
        correlation_threshold=CORRELATION_THRESHOLD,
        weigh_by_capacity=mapper.weighs,
    )
    course.moves += len(moves)
    return mapping_after(mapping, moves)


def _observed(
    fleet: Fleet, mapping: IntArray, series: FloatArray, sizes: FloatArray, now_s: float
) -> Observation:
    nodes = []
    for machine in fleet.machines():
        cluster = int(machine.cluster)
        use = series[mapping == cluster].sum(axis=0) / sizes[cluster]
        is_up = machine.state(now_s - STEP_S) != LAUNCHING
        nodes.append(
            NodeSample(
                machine.name,
                {"cpu": 1.0},
                {"cpu": use.tolist()} if is_up else None,
                machine.state(now_s - STEP_S),
                machine.cluster,
                machine.asked_at_s,
            )
        )
    return Observation(now_s, STEP_S, tuple(nodes))


def _scaled(
    fleet: Fleet, after: Mapping[str, int], before: Mapping[str, int], now_s: float
) -> None:
    """Request new nodes; remove the last nodes of a cluster that shrinks at once."""
    for cluster, count in after.items():
        more = count - before[cluster]
        mine = fleet.machines(cluster)
        if more > 0:
            fleet.launch([f"c{cluster}-{now_s:.0f}-{i}" for i in range(more)], now_s, cluster)
        elif more < 0:
            fleet.end([m.name for m in mine[more:]], now_s)
