"""One real broker for all tests of the engine, and a group of processes for each test."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ballast.contracts.policy import JobPolicy
from ballast.contracts.settings import Settings, load_settings
from ballast.store.table_schema import ensure_tables
from embedded.kafka_broker import KafkaBroker
from tests.support.orders_group import PARTITIONS, OrdersGroup
from tests.support.policies import small_policy, write_policy

ROOT = Path(__file__).resolve().parents[2]
NODES = ("node-0", "node-1", "node-2")
JARS = ROOT / ".ballast" / "kafka-jars"
_numbers = itertools.count()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    started = KafkaBroker(JARS, tmp_path_factory.mktemp("broker") / "kafka")
    try:
        started.start()
        yield started
    finally:
        started.remove()


def kafka_policy(job: str) -> JobPolicy:
    """Windows of 2 s, so that tests see several."""
    return small_policy(
        job=job, operators={job: PARTITIONS}, nodes=NODES, edges=[],
        window_s=2, statistics_period_s=12, engine={"kind": "kafka", "group": job},
    )  # fmt: skip


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    made = load_settings(
        {
            "BALLAST_HOME": str(tmp_path / "home"),
            "BALLAST_WAREHOUSE": str(tmp_path / "warehouse"),
            "BALLAST_POLICIES": str(tmp_path / "policies"),
        }
    )
    made.home.mkdir()
    ensure_tables(made)
    return made


@pytest.fixture
def make_group(
    broker: KafkaBroker, settings: Settings, tmp_path: Path
) -> Iterator[Callable[[], OrdersGroup]]:
    made: list[OrdersGroup] = []

    def make() -> OrdersGroup:
        policy = kafka_policy(f"orders{next(_numbers)}")
        write_policy(settings.policies, policy)
        folder = tmp_path / policy.job
        made.append(OrdersGroup(settings, policy, broker.address, folder))
        return made[-1]

    yield make
    for group in made:
        group.close()
