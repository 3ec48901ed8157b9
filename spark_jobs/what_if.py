"""What a plan would be on other nodes or with another load, beside what it is today:
``spark-submit spark_jobs/what_if.py --job J --run-id R --without node-1 --scale '*=1.3'``.

Reads the job's newest snapshot and writes no table: the answer is the task's log and its XCom.
"""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ballast.contracts.errors import Infeasible, NotFound, VerificationFailed
from ballast.contracts.process_exit import exit_now
from ballast.contracts.settings import Settings
from ballast.contracts.task_result import write_task_result
from ballast.store.snapshots import newest_snapshot, snapshot_of
from solvers.model.budget import Budget
from solvers.model.objective import OBJECTIVES, Objective
from solvers.model.problem import Problem
from solvers.model.result import Result
from solvers.model.stop import Stop
from solvers.planner.allocation import AllocationOptions, allocate
from solvers.planner.frontier import FrontierPoint, sweep
from solvers.planner.what_if import WhatIfQuestion, apply_question, nodes_that_hold, with_load_of
from solvers.planner.what_if_figures import factors, limit, names, pairs
from solvers.rebalance import METHODS
from solvers.verify.assignment import verify
from spark_jobs.draft.lookup import read_round
from spark_jobs.draft.round import Round
from spark_jobs.program.arguments import add_run_arguments, run_id
from spark_jobs.program.run import progress, run_program
from spark_jobs.publication.review_answer import matching
from spark_jobs.scenario.report import ComparedPlan, PlanComparison, report

WORDS = r"[A-Za-z0-9_.,=*: -]{0,2000}"
LIMIT = r"(none|[0-9]{1,16}(\.[0-9]{1,6})?)?"
FRONTIER_POINTS = 8


@dataclass(frozen=True)
class WhatIfRequest:
    """What is asked, and what a plan for it may cost."""

    question: WhatIfQuestion
    load_of: str | None = None
    moves: str | None = None
    bytes: str | None = None
    pause_s: str | None = None
    objective: str | None = None
    method: str | None = None
    hold_pct: float | None = None
    frontier: bool = False
    seconds: float = 5.0


def answer_question(settings: Settings, job: str, wanted: WhatIfRequest) -> PlanComparison:
    """Plan for today and for what is asked; both are verified, and nothing is written."""
    given = _newest_round(settings, job)
    problem = given.problem
    if wanted.load_of is not None:
        earlier = read_round(settings, snapshot_of(settings, job, wanted.load_of))
        problem = with_load_of(problem, earlier.problem)
    problem = apply_question(problem, wanted.question)
    budget, objective = _budget(given, wanted), _objective(given, wanted)
    method = wanted.method or ("auto" if wanted.objective else given.policy.solver.method)
    stop = Stop(seconds=wanted.seconds)
    today, then = (
        _planned(name, of, objective, budget, stop, method)
        for name, of in (("today", given.problem), ("what is asked", problem))
    )
    for side in (today, then):
        _check(side, budget, objective)
    return PlanComparison(
        given.snapshot,
        today,
        then,
        held=None if wanted.hold_pct is None else nodes_that_hold(problem, wanted.hold_pct / 100),
        hold_pct=wanted.hold_pct,
        front=_front(problem, budget, stop, objective) if wanted.frontier else [],
    )


def _planned(
    name: str, problem: Problem, objective: Objective, budget: Budget, stop: Stop, method: str
) -> ComparedPlan:
    progress.info("planning for %s: %d key groups on %d nodes, at most %g s", name,
                  problem.n_key_groups, problem.n_nodes, stop.seconds)  # fmt: skip
    return ComparedPlan(
        problem, allocate(objective, problem, budget, stop, AllocationOptions(method=method)).result
    )


def _newest_round(settings: Settings, job: str) -> Round:
    snapshot = newest_snapshot(settings, job)
    if snapshot is None:
        raise NotFound(
            f"job {job} has no snapshot to ask about", value=job,
            remedy=f"run reoptimize__{job} first",
        )  # fmt: skip
    return read_round(settings, snapshot)


def _budget(given: Round, wanted: WhatIfRequest) -> Budget:
    had = given.policy.budgets.of(given.snapshot["head_version"])
    return Budget(
        moves=limit("--moves", wanted.moves, had.moves, int),
        bytes=limit("--bytes", wanted.bytes, had.bytes, int),
        pause_s=limit("--pause-s", wanted.pause_s, had.pause_s, float),
    )


def _objective(given: Round, wanted: WhatIfRequest) -> Objective:
    return replace(given.objective, kind=wanted.objective or given.objective.kind)


def _check(side: ComparedPlan, budget: Budget, objective: Objective) -> None:
    """Every promise of an answer holds as well, by the verifier that shares no code with it."""
    result = side.result
    if not result.is_solved:
        return
    broken = verify(
        side.problem, budget, _named(side.problem, result), _promises(result), objective
    )
    if broken:
        raise VerificationFailed(
            f"the answer breaks its promises: {'; '.join(map(str, broken))}; to fix it: report "
            "this as a bug of the solver, and ask for another method"
        )


def _named(problem: Problem, result: Result) -> tuple[Sequence[str], Sequence[str]]:
    nodes = [problem.node_ids[node] for node in result.assignment.tolist()]
    return problem.key_group_ids, nodes


def _promises(result: Result) -> dict[str, object]:
    return {
        "status": result.status.value,
        "load_distance_before": result.load_distance_before,
        "load_distance": result.load_distance,
        "bound": result.bound,
        "gap": result.gap,
        "moves": result.moves,
        "bytes": result.bytes,
        "forced_moves": result.forced_moves,
        "forced_bytes": result.forced_bytes,
        "pause_s": result.pause_s,
    }


def _front(
    problem: Problem, budget: Budget, stop: Stop, objective: Objective
) -> list[FrontierPoint]:
    return sweep(problem, budget, "moves", stop, points=FRONTIER_POINTS, objective=objective)


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of ``what_if``; an empty one is as today."""
    add_run_arguments(parser)
    words = matching("text", WORDS)
    for name in ("without", "drain", "resize", "racks", "scale"):
        parser.add_argument(f"--{name}", type=words, default="", help="names, or NAME=VALUE, ...")
    parser.add_argument("--add", type=_number(0, 100_000, int), default=0, help="nodes more")
    parser.add_argument("--load-of", type=_or_none(run_id), help="run or time whose load is taken")
    for name in ("moves", "bytes", "pause-s"):
        parser.add_argument(f"--{name}", type=_or_none(matching("limit", LIMIT)))
    parser.add_argument("--objective", type=_one_of(OBJECTIVES))
    parser.add_argument("--method", type=_one_of(tuple(METHODS)))
    parser.add_argument("--hold-pct", type=_or_none(_number(0.001, 1000, float)))
    parser.add_argument("--frontier", choices=("true", "false"), default="false")
    parser.add_argument("--seconds", type=_number(0.1, 3600, float), default=5.0)


def _or_none(parse: Callable[[str], object]) -> Callable[[str], object]:
    return lambda text: parse(text) if text else None


def _one_of(allowed: Sequence[str]) -> Callable[[str], str | None]:
    def parse(text: str) -> str | None:
        if text and text not in allowed:
            raise ArgumentTypeError(f"{text[:40]!r} cannot be used; allowed: {', '.join(allowed)}")
        return text or None

    return parse


def _number(least: float, most: float, kind: Callable[[str], float]) -> Callable[[str], float]:
    def parse(text: str) -> float:
        is_number = re.fullmatch(r"[0-9]{1,16}(\.[0-9]{1,10})?", text)
        if not is_number or not least <= float(text) <= most:
            raise ArgumentTypeError(f"{text[:40]!r} cannot be used; allowed: {least:g} to {most:g}")
        try:
            return kind(text)
        except ValueError as error:
            raise ArgumentTypeError(f"{text!r} is not a whole number") from error

    return parse


def request_of(arguments: Namespace) -> WhatIfRequest:
    """What was parsed by :func:`add_arguments`."""
    racks = pairs("racks", names(arguments.racks), "NODE=RACK, ...")
    question = WhatIfQuestion(
        gone=names(arguments.without),
        leaving=names(arguments.drain),
        added=int(arguments.add),
        resized=factors("resize", names(arguments.resize)),
        scaled=factors("scale", names(arguments.scale)),
        racks=racks,
    )
    return WhatIfRequest(
        question, arguments.load_of, arguments.moves, arguments.bytes, arguments.pause_s,
        arguments.objective, arguments.method, arguments.hold_pct, arguments.frontier == "true",
        arguments.seconds,
    )  # fmt: skip


def body(arguments: Namespace, settings: Settings) -> None:
    """Run ``what_if`` as the command line asks for it."""
    answered = answer_question(settings, arguments.job, request_of(arguments))
    text = report(answered)
    for line in text.splitlines():
        progress.info("%s", line)
    write_task_result(report=text, **answered.summary())
    if not answered.asked.result.is_solved:
        raise Infeasible(
            f"what is asked has no plan: {answered.asked.result.reason}; to fix it: allow more "
            "moves, keep more nodes, or ask for less load"
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    return run_program("what_if", "Ask what a plan would be.", add_arguments, body, argv)


if __name__ == "__main__":
    exit_now(main())
