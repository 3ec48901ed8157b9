"""One real broker for all tests of the engine, and a group of processes for each test."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ballast.contracts.settings import Settings, load_settings
from ballast.store.table_schema import ensure_tables
from embedded.kafka_broker import KafkaBroker
from tests.support.orders_group import OrdersGroup, kafka_policy
from tests.support.policies import write_policy

ROOT = Path(__file__).resolve().parents[2]
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
