"""A batch reads the head of its plan, and a store that hangs holds it up for a bounded time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from ballast.contracts.records import Head
from ballast.store.plan_content import PublishedContent
from ballast.streaming import head_reader
from ballast.streaming.head_reader import HeadReader, PublishedPlan, read_published_plan

SHORT_S, LONG_S = 0.01, 60.0
CONTENT = PublishedContent([("count", 0, "node-0")])


def plan(version: int) -> PublishedPlan:
    head = Head(
        job="job", version=version, plan_id=f"plan-{version}", content_hash="hash", run_id="run",
        published_at=datetime(2026, 1, 1, tzinfo=UTC),
    )  # fmt: skip
    return PublishedPlan(head, CONTENT)


class Store:
    """Gives version after version; hangs while ``answers`` is not set."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.answers.set()
        self.calls = 0
        self.ended = threading.Semaphore(0)

    def read(self, known: PublishedPlan | None) -> PublishedPlan | None:
        self.calls += 1
        number = self.calls
        self.answers.wait(LONG_S)
        self.ended.release()
        return plan(number)


@pytest.fixture
def store() -> Iterator[Store]:
    made = Store()
    yield made
    made.answers.set()


def test_a_batch_gets_what_is_published_when_it_asks(store: Store) -> None:
    reader = HeadReader(store.read, LONG_S)
    assert [reader.newest().head.version for _ in range(3)] == [1, 2, 3]


def test_a_store_that_hangs_leaves_the_last_head_in_force(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    reader = HeadReader(store.read, LONG_S)
    assert reader.newest().head.version == 1
    reader.read_now.wait_s = SHORT_S
    store.answers.clear()
    with caplog.at_level("WARNING", logger="ballast.streaming"):
        assert reader.newest().head.version == 1
    assert "reading the head of the plan has not ended within 0 s" in caplog.text
    assert reader.newest().head.version == 1
    assert store.calls == 2, "no other call beside the one that hangs"


def test_a_store_that_answers_late_is_read_by_a_later_batch(store: Store) -> None:
    reader = HeadReader(store.read, SHORT_S)
    store.answers.clear()
    assert reader.newest() is None
    store.answers.set()
    assert store.ended.acquire(timeout=LONG_S)
    found = None
    for _ in range(1000):
        found = reader.newest()
        if found is not None:
            break
    assert found is not None


def test_the_age_of_the_head_is_that_of_the_last_reading_that_succeeded() -> None:
    now = SimpleNamespace(s=100.0)
    broken = threading.Event()

    def read(known: PublishedPlan | None) -> PublishedPlan | None:
        if broken.is_set():
            raise OSError("no route to store")
        return plan(1)

    reader = HeadReader(read, LONG_S, lambda: now.s)
    assert reader.age_s() is None
    reader.newest()
    now.s = 130.0
    broken.set()
    assert reader.newest().head.version == 1
    assert reader.age_s() == 30.0


def test_only_the_content_of_news_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    heads = iter([plan(3).head, plan(4).head])
    monkeypatch.setattr(head_reader, "read_head", lambda settings, job: next(heads))
    monkeypatch.setattr(
        head_reader, "read_published_content", lambda settings, job, plan_id: CONTENT
    )
    old = read_published_plan(None, "job", None, lambda head: head.version > 3)
    assert old is not None
    assert old.content is None
    new = read_published_plan(None, "job", old, lambda head: head.version > 3)
    assert new is not None
    assert new.content == CONTENT


def test_a_plan_that_is_still_in_force_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    known = plan(3)
    monkeypatch.setattr(head_reader, "read_head", lambda settings, job: known.head)
    assert read_published_plan(None, "job", known, lambda head: True) is known
