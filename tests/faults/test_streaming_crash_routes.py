"""A job is killed at each point of taking routes and splits up, for every kind of change.

Process k repeats the batch that process k - 1 left unfinished, takes version k up in its next batch
and is killed there at one point. Versions add, change and remove routes, split keys, join them and
leave them split, alone and while key groups move, so that every fault point is combined with each
of these. The chain with Spark is in ``test_streaming_crash.py``.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from ballast.contracts.fault_points import JOB_POINTS
from ballast.contracts.settings import Settings, load_settings
from ballast.store.plans import read_acks
from ballast.store.table_schema import ensure_tables
from ballast.store.tables import read_rows
from ballast.streaming.job_state import placement_in_force, read_key_states, read_states
from tests.faults.routed_job import POLICY, WORDS, committed, live
from tests.support.streaming_parts import JOB, OPERATORS_BY_KEY
from tests.support.streaming_plans import publish

Routes = list[tuple[str, str, int]]
Content = tuple[Callable[[str, int], str], Routes, Routes]
ALL_SPLIT = [("total", letter, part) for letter in "abcé" for part in (0, 1)]
ONE_SPLIT = [("total", "b", part) for part in (0, 1)]


def routes(number: int) -> Routes:
    """Routes of half of the keys, to other key groups for each number."""
    letters = sorted({word[0] for word in WORDS})
    keys = {"parse": WORDS, "count": WORDS, "total": letters}
    return [
        (operator.id, key, (position + number) % operator.key_groups)
        for operator in POLICY.operators
        for position, key in enumerate(keys[operator.id])
        if (position + number) % 2
    ]


def nodes(by: int) -> Callable[[str, int], str]:
    """Key groups with odd numbers are on other nodes for each ``by``; the others stay."""
    return lambda operator, group: f"node-{(group + by * (group % 2) + len(operator)) % 3}"


# A cycle: after the last content comes the first one again.
CONTENTS: dict[str, Content] = {
    "routes come, keys are joined": (nodes(0), routes(1), []),
    "routes change, keys are split": (nodes(0), routes(2), ALL_SPLIT),
    "routes go, all keys but one are joined": (nodes(0), [], ONE_SPLIT),
    "routes come and the last key is joined while key groups move": (nodes(1), routes(1), []),
    "routes change and keys are split while key groups move": (nodes(2), routes(2), ALL_SPLIT),
    "routes go and keys stay split while key groups move": (nodes(0), [], ALL_SPLIT),
}


@dataclass(frozen=True)
class CrashedRoutedJob:
    """All processes of a job: what each took up and where it was killed."""

    settings: Settings
    exit_codes: dict[tuple[str, str], int | None]
    batches: int


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> CrashedRoutedJob:
    settings = load_settings({"BALLAST_HOME": str(tmp_path_factory.mktemp("crash"))})
    ensure_tables(settings)
    # Each process is forked from one that has imported everything and has not started a job.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.faults.routed_job"])

    def run(batches: int, fault: str) -> int | None:
        process = context.Process(target=live, args=(str(settings.home), batches, fault))
        process.start()
        process.join(240)
        return process.exitcode

    publish(settings, POLICY, 1, nodes(0))
    assert run(2, "") == 0
    codes, version = {}, 1
    for point in JOB_POINTS:
        for kind, content in CONTENTS.items():
            version += 1
            placed, keys, splits = content
            publish(settings, POLICY, version, placed, keys, splits=splits)
            codes[kind, point] = run(2, f"{point}@{version}")
    assert run(2, "") == 0
    return CrashedRoutedJob(settings, codes, committed(settings))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", JOB_POINTS)
def test_each_process_died_at_its_point(story: CrashedRoutedJob, point: str) -> None:
    codes = {kind: story.exit_codes[kind, point] for kind in CONTENTS}
    assert codes == dict.fromkeys(CONTENTS, -signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_after_all_kills_every_count_is_that_of_the_input(story: CrashedRoutedJob) -> None:
    assert story.batches == len(JOB_POINTS) * len(CONTENTS) + 3
    counted, totals = states(story, "count"), states(story, "total")
    assert counted == {word: n * story.batches for word, n in Counter(WORDS).items()}
    letters = Counter(word[0] for word in WORDS)
    assert totals == {
        letter: {"word": n * story.batches, "counted": n * story.batches}
        for letter, n in letters.items()
    }


def states(story: CrashedRoutedJob, operator: str) -> dict[str, object]:
    """State by key; no key is in a key group that the plan does not name for it."""
    placement = placement_in_force(story.settings, JOB)
    for group, state in read_states(story.settings, JOB, operator).items():
        assert all(group in placement.parts_of(operator, key) for key in state)
    declared = next(found for found in OPERATORS_BY_KEY if found.id == operator)
    return read_key_states(story.settings, JOB, declared)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_after_all_kills_each_version_was_applied_once_with_its_bytes(
    story: CrashedRoutedJob,
) -> None:
    acks = read_acks(story.settings, JOB)
    last = 1 + len(JOB_POINTS) * len(CONTENTS)
    said = Counter((ack.version, ack.status) for ack in acks)
    assert said == {(v, s): 1 for v in range(1, last + 1) for s in ("accepted", "applied")}
    applied = [ack for ack in acks if ack.status == "applied" and ack.version > 1]
    assert all(ack.bytes_moved > 0 for ack in applied)
    assert {ack.moved_key_groups > 0 for ack in applied} == {True, False}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_after_all_kills_every_pair_of_keys_was_counted_once(story: CrashedRoutedJob) -> None:
    rows = read_rows(story.settings, "metrics.key_pairs", job=JOB).to_pandas()
    along = rows[rows.kind.isin(["pair", "other_pairs"])]
    assert along.records.sum() == 3 * len(WORDS) * story.batches
    keys = rows[(rows.kind == "key") & (rows.from_operator_id == "count")]
    assert keys.groupby("from_key").records.sum().to_dict() == {
        word: n * story.batches for word, n in Counter(WORDS).items()
    }
