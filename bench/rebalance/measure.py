"""Runs one peer on one instance in a process of its own, and judges its plan.

Every plan goes through the same two checks: the verifier (rules and budget), and the load distance
recomputed from the assignment. A plan that breaks a rule counts as failed.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.rebalance.cells import problem_of
from bench.rebalance.environments import CP_SAT, META, ROOT
from bench.rebalance.peers.exchange import Answer, Instance, TracePoint, answer_path
from solvers.model import metrics
from solvers.model.budget import Budget
from solvers.model.problem import Problem
from solvers.verify.assignment import verify

KILL_FACTOR = 3.0
KILL_GRACE_S = 10.0
"""A peer that still runs after this multiple of its limit, and the grace period, is killed."""
POLL_S = 0.02

OURS = "ours"
OK = "ok"
NO_PLAN = "no plan"
NOT_BUILT = "not built"
KILLED = "killed"
CRASHED = "crashed"
BROKEN = "broken"


@dataclass(frozen=True)
class Peer:
    """A competitor: the Python that runs it, its program, and whether it may run beside others."""

    name: str
    words: str
    python: str
    program: tuple[str, ...]
    cores: int = 1
    at_any_size: bool = True
    is_any_time: bool = True  # is also run with a second, longer limit
    root: Path = ROOT  # the checkout that its program is from

    def command(
        self, instance: Path, folder: Path, limits: Sequence[float], seed: int
    ) -> list[str]:
        numbers = [f"{limit:g}" for limit in limits]
        where = [str(instance), str(folder)]
        return [self.python, "-m", *self.program, *where, *numbers, "--seed", str(seed)]


PROGRAMS = "bench.rebalance.peers"
PEERS: tuple[Peer, ...] = (
    Peer(OURS, "solvers.solve, method auto", sys.executable, (f"{PROGRAMS}.ours", "auto"), 2),
    Peer(
        "flux",
        "Flux, our implementation",
        sys.executable,
        (f"{PROGRAMS}.ours", "flux"),
        2,
        is_any_time=False,
    ),
    Peer("meta", "Meta's rebalancer 1.0.4", str(META.executable), (f"{PROGRAMS}.meta",), 2),
    Peer(
        "cp-sat",
        "OR-Tools CP-SAT",
        str(CP_SAT.executable),
        (f"{PROGRAMS}.cp_sat",),
        2,
        at_any_size=False,
    ),
    Peer(
        "highs",
        "PuLP with HiGHS, plain model",
        sys.executable,
        (f"{PROGRAMS}.pulp_highs",),
        at_any_size=False,
    ),
    Peer(
        "cbc",
        "PuLP with CBC, plain model",
        sys.executable,
        (f"{PROGRAMS}.pulp_cbc",),
        at_any_size=False,
    ),
)


@dataclass(frozen=True)
class PeerOutcome:
    """The result of one peer on one instance within one limit; ``load_distance`` is NaN without a
    plan."""

    peer: str
    cell: str
    index: int
    seed: int
    limit: float
    status: str
    load_distance: float
    before: float
    moves: int = 0
    bytes: int = 0
    seconds: float = 0.0
    note: str = ""
    trace: tuple[TracePoint, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def figure(self) -> float:
        """The load distance by which it is ranked; no plan ranks below any plan."""
        return math.inf if math.isnan(self.load_distance) else self.load_distance

    def to_dict(self) -> dict[str, Any]:
        row = asdict(self)
        row["load_distance"] = None if math.isnan(self.load_distance) else self.load_distance
        return row

    @classmethod
    def from_dict(cls, row: dict[str, Any]) -> PeerOutcome:
        distance = row["load_distance"]
        trace = tuple((float(s), float(v)) for s, v in row["trace"])
        return cls(
            **{
                **row,
                "load_distance": math.nan if distance is None else distance,
                "trace": trace,
            }
        )


@dataclass(frozen=True)
class PeerTask:
    """An instance for peers to solve."""

    cell: str
    index: int
    seed: int
    instance: Instance


def measure(
    peers: Sequence[Peer], task: PeerTask, limits: Mapping[str, Sequence[float]], build_s: float
) -> list[PeerOutcome]:
    """Run the peers at the same time (one core each), or a single one, and judge their answers."""
    with tempfile.TemporaryDirectory(prefix="ballast-bench-") as work:
        path = Path(work) / "instance.npz"
        task.instance.save(path)
        runs = [
            _PeerRun(peer, path, Path(work), limits[peer.name], task, build_s) for peer in peers
        ]
        while runs_on := [run for run in runs if run.is_running()]:
            time.sleep(POLL_S * len(runs_on))
        problem, budget = problem_of(task.instance)
        return [outcome for run in runs for outcome in run.outcomes(problem, budget)]


class _PeerRun:
    """One child process with its deadlines: one for building the model, one for the solves."""

    def __init__(
        self,
        peer: Peer,
        instance: Path,
        work: Path,
        limits: Sequence[float],
        task: PeerTask,
        build_s: float,
    ) -> None:
        self.peer, self.limits, self.task = peer, limits, task
        self.folder = work / peer.name
        self.folder.mkdir()
        self.log = self.folder / "log.txt"
        self.deadline = time.monotonic() + build_s
        self.is_built = False
        self.killed_as = ""
        with self.log.open("w", encoding="utf-8") as log:
            # A group of its own: PuLP's CBC is a child of the child.
            self.process = subprocess.Popen(
                peer.command(instance, self.folder, limits, task.seed),
                cwd=self.peer.root,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": str(self.peer.root)},
            )

    def is_running(self) -> bool:
        if self.process.poll() is not None:
            return False
        self._note_built()
        if time.monotonic() > self.deadline:
            self.killed_as = KILLED if self.is_built else NOT_BUILT
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            return False
        return True

    def _note_built(self) -> None:
        if not self.is_built and "built in" in self._text():
            self.is_built = True
            allowed = sum(KILL_FACTOR * limit + KILL_GRACE_S for limit in self.limits)
            self.deadline = time.monotonic() + allowed

    def _text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def outcomes(self, problem: Problem, budget: Budget) -> list[PeerOutcome]:
        return [self._outcome(limit, problem, budget) for limit in self.limits]

    def _outcome(self, limit: float, problem: Problem, budget: Budget) -> PeerOutcome:
        path = answer_path(self.folder, limit)
        if not path.exists():
            status = self.killed_as or CRASHED
            note = "" if self.killed_as else self._text().strip()[-500:]
            return self._without_plan(limit, status, note, problem)
        return judge(self.peer.name, self.task, limit, Answer.read(path), problem, budget)

    def _without_plan(self, limit: float, status: str, note: str, problem: Problem) -> PeerOutcome:
        return no_outcome(self.peer.name, self.task, limit, status, note, _before(problem))


def no_outcome(
    peer: str, task: PeerTask, limit: float, status: str, note: str, before: float
) -> PeerOutcome:
    return PeerOutcome(
        peer, task.cell, task.index, task.seed, limit, status, math.nan, before, note=note
    )


def judge(
    peer: str, task: PeerTask, limit: float, answer: Answer, problem: Problem, budget: Budget
) -> PeerOutcome:
    """Evaluate a plan in the same way for every peer."""
    if answer.assignment is None:
        return no_outcome(peer, task, limit, NO_PLAN, answer.note, _before(problem))
    broken = _violations(problem, budget, answer)
    if broken:
        return no_outcome(peer, task, limit, BROKEN, "; ".join(broken), _before(problem))
    moved = answer.assignment != problem.current
    return PeerOutcome(
        peer=peer,
        cell=task.cell,
        index=task.index,
        seed=task.seed,
        limit=limit,
        status=OK,
        load_distance=metrics.load_distance(problem, answer.assignment),
        before=_before(problem),
        moves=int(moved.sum()),
        bytes=int(problem.state_bytes[moved].sum()),
        seconds=answer.seconds,
        note=answer.note,
        trace=answer.trace,
        extra=answer.extra,
    )


def _violations(problem: Problem, budget: Budget, answer: Answer) -> list[str]:
    """Violations of rules and budget. A plan that is worse than the start breaks no rule."""
    assert answer.assignment is not None
    if not bool(((answer.assignment >= 0) & (answer.assignment < problem.n_nodes)).all()):
        return ["assignment: a node that does not exist"]
    nodes = [problem.node_ids[i] for i in answer.assignment.tolist()]
    found = verify(problem, budget, (problem.key_group_ids, nodes), {})
    return [str(v) for v in found if v.promise.split(".")[0] in ("assignment", "nodes", "budget")]


def _before(problem: Problem) -> float:
    return metrics.load_distance(problem, problem.current)
