"""Reads the problem that a command plans for: a problem folder, or a snapshot of a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ballast.cli.convert import method_params, to_objective, to_problem
from ballast.contracts.errors import NotFound, ProblemError
from ballast.contracts.policy import SolverPolicy
from ballast.contracts.records import Snapshot
from ballast.contracts.settings import check_job_name, load_settings
from ballast.contracts.tables import MEASURED

if TYPE_CHECKING:
    from solvers.model.budget import Budget
    from solvers.model.method import MethodInputs
    from solvers.model.objective import Objective
    from solvers.model.problem import Problem


def _no_inputs() -> MethodInputs:
    from solvers.model.method import MethodInputs

    return MethodInputs()


@dataclass(frozen=True)
class Target:
    """A problem, with the objective, budget and method of its folder or policy."""

    problem: Problem
    budget: Budget
    objective: Objective
    method: str = "auto"
    params: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of methods by their names."""
    inputs: MethodInputs = field(default_factory=_no_inputs)
    """What some methods need beside the problem."""
    precision: str = MEASURED
    """Whether plans stop improving where that cannot be measured; from the policy of a job."""


def read_target(target: str, load_of: str | None = None) -> Target:
    """Read the problem of a folder or of a job.

    Args:
        target: a folder, or the name of a job.
        load_of: a run or a time that selects the job's snapshot; the newest one by default.

    Raises:
        ProblemError: the folder cannot be used, or ``load_of`` is set for a folder.
        NotFound: the job has no such snapshot.
    """
    if Path(target).is_dir():
        from ballast.problems import read_problem

        if load_of is not None:
            raise ProblemError(f"{target} is a folder, which has no runs", remedy="name a job")
        folder = read_problem(target)
        objective = to_objective(folder)
        problem, budget = to_problem(folder)
        return Target(problem, budget, objective, params=method_params(folder))
    if "/" in target or target in (".", ".."):
        raise ProblemError(f"{target} is not a folder", remedy="give a problem folder or a job")
    return _of_job(check_job_name(target), load_of)


def _params_by_method(solver: SolverPolicy) -> Mapping[str, Any]:
    """The parameters of the policy; those of ``auto`` are by the names of methods already."""
    return solver.params if solver.method == "auto" else {solver.method: solver.params}


def _of_job(job: str, load_of: str | None) -> Target:
    from ballast.store.snapshots import newest_snapshot, read_snapshot, snapshot_of
    from solvers.model.budget import Budget
    from solvers.model.method import MethodInputs
    from solvers.model.objective import objective_of_policy
    from solvers.model.problem import Problem
    from solvers.model.rule_masks import with_rules
    from solvers.model.rules import rules_of_policy
    from solvers.noise.load_noise import noise_of_snapshot

    settings = load_settings()
    if load_of is not None:
        snapshot: Snapshot | None = snapshot_of(settings, job, load_of)
    else:
        snapshot = newest_snapshot(settings, job)
    if snapshot is None:
        raise NotFound(
            f"job {job} has no snapshot in warehouse {settings.warehouse}", value=job,
            remedy=f"trigger reoptimize__{job} in Airflow, or set BALLAST_WAREHOUSE",
        )  # fmt: skip
    found = read_snapshot(settings, snapshot)
    policy = found.policy
    limits = policy.budgets.of(snapshot.head_version)
    noise = noise_of_snapshot(found.problem.resources, found.noise)
    return Target(
        with_rules(Problem(**vars(found.problem), noise=noise), rules_of_policy(policy)),
        Budget(limits.moves, limits.bytes, limits.pause_s),
        objective_of_policy(policy.objective),
        policy.solver.method,
        _params_by_method(policy.solver),
        MethodInputs(
            found.series,
            {node.id: node.cluster for node in policy.nodes},
            {each.id: each.partition_key for each in policy.operators},
        ),
        policy.solver.precision,
    )
