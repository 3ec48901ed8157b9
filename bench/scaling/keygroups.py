"""Ballast under [DODO]'s ramps: key groups over all nodes, by [ICDE17]'s Algorithm 1 each round.

Each round uses what was measured since the last one, moves the least state that levels the nodes to
within ``WITHIN``, and requests nodes if its policy decides so. New nodes get key groups once they
have started.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.scaling.course import STEP_S, STEPS, Course, Experiment
from bench.simulator.checked import checked
from bench.simulator.cluster import PauseModel, SimulatedCluster
from bench.simulator.fleet import Fleet
from bench.simulator.pipeline import PipelineTopology, Source, topology
from bench.simulator.scale_in import no_scaling
from solvers.model.budget import Budget
from solvers.model.node_set import NodeSpec
from solvers.model.problem import FloatArray, IntArray, Problem
from solvers.model.stop import Stop
from solvers.place import least_state_moved
from solvers.planner.allocation import Allocation
from solvers.planner.node_changes import NodeChangeRules
from solvers.planner.round import (
    DecideScaling,
    RoundPlan,
    ScalingRequest,
    plan_round,
    scaling_by_policy,
)
from solvers.scale import NodeSample, Observation, Policy, ScalingHistory

WITHIN = 1.0
"""Percent of the mean by which a node may differ before anything moves."""
BUDGET = Budget()
"""The paper prints no budget; the cost of moves is in the pauses."""
PAUSE = PauseModel(c0_s=0.1, s_per_byte=1e-8)
"""A tenth of a second, and one more for each 100 MB."""


class KeyGroupNodes:
    """Nodes by name, key groups on them, and the source before them."""

    def __init__(self, experiment: Experiment, seed: int) -> None:
        self.experiment, self.seed = experiment, seed
        self.topology: PipelineTopology = topology(seed, experiment.cost_ms)
        self.fleet = Fleet(experiment.launch_s)
        clusters = [[f"c{c}-{i}" for i in range(n)] for c, n in enumerate(experiment.sizes)]
        for names in clusters:
            self.fleet.start(names)
        self.on = first_placement(self.topology, experiment.mapping, clusters)
        self.first = list(self.on)
        self.source, self.course = Source(), Course()
        self.held = 0.0
        self.drains: dict[str, int] = {}
        self.history = ScalingHistory()

    def run(self, policy: Policy | None) -> Course:
        passed: list[float] = []
        for step in range(self.experiment.steps):
            now_s = step * STEP_S
            passed.append(self._pass_time(now_s))
            if (step + 1) % STEPS == 0:
                self._round(np.array(passed[-STEPS:]), now_s + STEP_S, policy)
        self.course.needless = self.course.moves - sum(
            a != b for a, b in zip(self.first, self.on, strict=True)
        )
        return self.course.ended(self._sustained(), self.fleet, now_s + STEP_S)

    def _pass_time(self, now_s: float) -> float:
        rate = self.experiment.ramp.at(now_s)
        passed = self.source.step(rate, self._sustained(), STEP_S, self.held)
        self.held = 0.0
        hours = self.fleet.instance_hours(now_s + STEP_S)
        self.course.note(now_s, passed, len(self.fleet.ready(now_s)), hours)
        return passed

    def _sustained(self) -> float:
        names = sorted(set(self.on))
        index = {name: i for i, name in enumerate(names)}
        return self.topology.sustained(np.array([index[n] for n in self.on]), len(names))

    def _round(self, passed: FloatArray, now_s: float, policy: Policy | None) -> None:
        seen = self.topology.passed(float(passed.mean()), len(passed) * STEP_S)
        problem = self.cluster(now_s).problem(seen.load, seen.state_bytes)
        spares = [NodeSpec(f"n{now_s:.0f}-{i}", (1.0,)) for i in range(self.experiment.cap)]
        plan = plan_round(
            problem,
            BUDGET,
            self._allocate,
            ScalingRequest(
                self._scaling(problem, passed, now_s, policy),
                drains=self.drains,
                spares=spares,
                rules=NodeChangeRules(fill_new_nodes=self.experiment.launch_s == 0),
            ),
        )
        if policy is not None:
            self.history = self.history.remember(now_s, plan.decision, policy.memory_rounds)
        self._follow(plan, float(passed[-1]), now_s)

    def _allocate(self, problem: Problem, budget: Budget) -> Allocation:
        return Allocation(least_state_moved(problem, WITHIN, budget, Stop(steps=1), self.seed))

    def cluster(self, now_s: float) -> SimulatedCluster:
        """The nodes that have started, and the key groups on them."""
        machines = self.fleet.ready(now_s)
        index = {m.name: i for i, m in enumerate(machines)}
        return SimulatedCluster(
            np.array([index[name] for name in self.on]),
            len(machines),
            draining=[i for i, m in enumerate(machines) if m.is_draining],
            operators=self.topology.operator_names,
            pause=PAUSE,
            names=list(index),
        )

    def _scaling(
        self, problem: Problem, passed: FloatArray, now_s: float, policy: Policy | None
    ) -> DecideScaling:
        if policy is None:
            return no_scaling
        by_group = np.outer(self.topology.work_s, passed)
        by_node = np.zeros((problem.n_nodes, len(passed)))
        np.add.at(by_node, problem.current, by_group)
        index = {name: i for i, name in enumerate(problem.node_ids)}
        nodes = tuple(
            NodeSample(
                m.name,
                {"cpu": 1.0},
                {"cpu": by_node[index[m.name]].tolist()} if m.name in index else None,
                m.state(now_s),
                "",
                m.asked_at_s,
            )
            for m in self.fleet.machines()
        )
        observation = Observation(now_s, STEP_S, nodes)
        return scaling_by_policy(observation, policy, self.history, by_group[:, None, :])

    def _follow(self, plan: RoundPlan, rate: float, now_s: float) -> None:
        after = list(checked(plan.problem, BUDGET, plan.result).values())
        moved = np.array([a != b for a, b in zip(self.on, after, strict=True)])
        pauses = PAUSE.of(self.topology.state_bytes[moved])
        self.held = rate * float((self.topology.share[moved] * pauses).sum())
        self.course.moves += int(moved.sum())
        self.on, self.drains = after, dict(plan.drains)
        self.fleet.end(plan.ended, now_s)
        self.fleet.drain(plan.marked)
        self.fleet.drain(plan.revived, back=True)
        self.fleet.launch(plan.added, now_s)


def first_placement(
    topology: PipelineTopology, mapping: Sequence[int], clusters: Sequence[Sequence[str]]
) -> list[str]:
    """The key groups of each operator in turn over the nodes of its cluster."""
    turn: IntArray = np.arange(len(topology.operator))
    homes = [clusters[mapping[int(operator)]] for operator in topology.operator]
    return [names[int(i) % len(names)] for i, names in zip(turn, homes, strict=True)]
