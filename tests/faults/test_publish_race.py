"""Two processes repeatedly publish different drafts of one parent: one wins, the other is
refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ballast.contracts.records import Head, Snapshot
from ballast.contracts.settings import Settings, load_settings
from ballast.contracts.table_schemas import arrow_schema
from ballast.contracts.tables import TABLES
from ballast.store.plans import read_head
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import append, read_rows
from solvers.model.budget import Budget
from solvers.model.stop import Stop
from solvers.planner.plan import Plan
from solvers.rebalance.solve import solve
from spark_jobs.draft.assemble import DraftRequest, assemble_draft
from spark_jobs.draft.round import RoundInputs, round_of
from tests.support.policies import small_policy
from tests.support.snapshots import snapshot_rows, uneven

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = int(os.environ.get("BALLAST_RACE_ROUNDS", "200"))
ROUNDS_A_JOB = 20
"""Rounds of each job: the first one inserts its head, the others change it."""
RACERS = ("left", "right")


@dataclass(frozen=True)
class RaceRound:
    """A round; both drafts are made against the version before ``version``."""

    job: str
    version: int

    def run_id(self, racer: str) -> str:
        return f"{racer}-{self.version}"


def rounds() -> list[RaceRound]:
    """Twenty consecutive versions of each job."""
    return [RaceRound(f"job_{i // ROUNDS_A_JOB}", i % ROUNDS_A_JOB + 1) for i in range(ROUNDS)]


def write_drafts(settings: Settings, all_rounds: list[RaceRound]) -> None:
    """Write the drafts of all rounds as ``solve`` does, with one commit for each table."""
    written: dict[str, list[dict[str, Any]]] = {}
    for each in all_rounds:
        for racer in RACERS:
            for table, rows in draft_rows(each, racer).items():
                written.setdefault(table, []).extend(rows)
    for table, rows in written.items():
        append(settings, table, rows)


def draft_rows(each: RaceRound, racer: str) -> dict[str, list[dict[str, Any]]]:
    policy = small_policy(each.job)
    parent = Head(each.job, each.version - 1, "parent", "", "", datetime.now(UTC))
    rows = snapshot_rows(policy, each.run_id(racer), placement=uneven(policy), head=parent)
    tables = [
        pa.Table.from_pylist(rows[name], schema=arrow_schema(TABLES[name]))
        for name in ("snapshots.key_groups", "snapshots.nodes", "snapshots.traffic")
    ]
    given = round_of(
        RoundInputs(
            snapshot=Snapshot.from_row(rows["snapshots.snapshots"][0]),
            policy=policy,
            key_groups=tables[0],
            nodes=tables[1],
            traffic=tables[2],
        )
    )
    result = solve(given.problem, Budget(), Stop(seconds=1), method="flux")
    plan = Plan(problem=given.problem, rerouted=given.problem, result=result)
    now = datetime.now(UTC)
    made = assemble_draft(
        DraftRequest(round=given, plan=plan, budget=Budget(), seed=0, created_at=now)
    )
    return {
        **rows,
        "plans.assignments": made.content.assignments.to_pylist(),
        "plans.promises": [row.to_row() for row in made.promises],
        "plans.plans": [made.draft.to_row()],
    }


class Racer:
    """The process of publish_racer, and the connection to it."""

    def __init__(self, settings: Settings, name: str) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "BALLAST_HOME": str(settings.home / name),
            "BALLAST_WAREHOUSE": settings.warehouse,
        }
        self.name = name
        self.log = (settings.home / f"{name}.log").open("w")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.publish_racer"],
            cwd=ROOT, env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
        )  # fmt: skip

    def tell(self, **message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"racer {self.name} ended: {Path(self.log.name).read_text()[-2000:]}"
        return json.loads(line)

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


@contextmanager
def racing(settings: Settings) -> Iterator[list[Racer]]:
    racers: list[Racer] = []
    try:
        racers.extend(Racer(settings, name) for name in RACERS)
        for racer in racers:
            assert racer.hear() == {"at": "start"}
        yield racers
    finally:
        for racer in racers:
            racer.stop()


def run_round(racers: list[Racer], each: RaceRound) -> dict[str, dict[str, Any]]:
    """Run both publishers up to the change, start the change at once, and read their answers."""
    for racer in racers:
        racer.tell(job=each.job, run_id=each.run_id(racer.name))
    for racer in racers:
        assert racer.hear() == {"at": "publish.before_cas"}
    for racer in racers:
        racer.tell(go=True)
    return {racer.name: racer.hear() for racer in racers}


def check_round(settings: Settings, each: RaceRound, answers: dict[str, dict[str, Any]]) -> str:
    """Check the result of a round; return the winner."""
    winners = [name for name, answer in answers.items() if answer["won"]]
    assert len(winners) == 1, (each, answers)
    winner = winners[0]
    loser = next(name for name in answers if name != winner)
    head = read_head(settings, each.job)
    assert head is not None
    assert (head.version, head.run_id) == (each.version, each.run_id(winner))
    assert answers[winner]["version"] == each.version
    assert answers[winner]["plan_id"] == head.plan_id
    assert answers[loser]["error"] == "PublishConflict"
    assert f"plan {head.plan_id} of run {head.run_id}," in answers[loser]["message"]
    where = [("version", "=", each.version), ("event", "=", "published")]
    log = read_rows(settings, "plans.log", job=each.job, where=where).to_pylist()
    assert [(row["plan_id"], row["run_id"]) for row in log] == [(head.plan_id, head.run_id)]
    return winner


@pytest.mark.timeout(900)
def test_of_two_publishers_one_wins_and_the_error_of_the_other_names_it(tmp_path, capsys):
    settings = load_settings({"BALLAST_HOME": str(tmp_path)})
    ensure_tables(settings)
    all_rounds = rounds()
    write_drafts(settings, all_rounds)
    wins = dict.fromkeys(RACERS, 0)
    with racing(settings) as racers:
        started = time.monotonic()
        for each in all_rounds:
            wins[check_round(settings, each, run_round(racers, each))] += 1
        seconds = time.monotonic() - started
    with capsys.disabled():
        print(f"\n{ROUNDS} races in {seconds:.0f} s, {seconds / ROUNDS:.2f} s each: won {wins}")
    conflicts = [
        row
        for job in {each.job for each in all_rounds}
        for row in read_rows(
            settings, "plans.log", job=job, where=[("event", "=", "conflict")]
        ).to_pylist()
    ]
    assert len(conflicts) == ROUNDS
