"""Flink's jars are installed all or not at all, and once for a lock file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.flink_jars import FlinkJarsError, are_in_place, install

JARS = ("flink-dist-2.jar", "log4j-api-2.jar", "log4j-core-2.jar", "log4j-slf4j-impl-2.jar")


class Wheel:
    """Unpacks these jars, and counts how often it was asked to."""

    def __init__(self, *jars: str) -> None:
        self.jars, self.times = jars, 0

    def unpack(self, _: Path, work: Path) -> None:
        self.times += 1
        lib = work / "pyflink" / "lib"
        lib.mkdir(parents=True)
        for jar in (*self.jars, "flink-csv-2.jar"):
            (lib / jar).write_text(jar)


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    file = tmp_path / "flink.lock"
    file.write_text("one")
    return file


def test_only_the_jars_of_a_cluster_are_kept_and_fetched_once(lock: Path, tmp_path: Path) -> None:
    wheel, folder = Wheel(*JARS), tmp_path / "jars"
    install(lock, folder, wheel.unpack)
    install(lock, folder, wheel.unpack)
    assert wheel.times == 1
    assert {file.name for file in folder.iterdir()} == {*JARS, "flink.lock"}


def test_another_lock_or_a_lost_jar_fetches_them_again(lock: Path, tmp_path: Path) -> None:
    wheel, folder = Wheel(*JARS), tmp_path / "jars"
    install(lock, folder, wheel.unpack)
    (folder / JARS[0]).unlink()
    assert not are_in_place(lock, folder)
    install(lock, folder, wheel.unpack)
    lock.write_text("two")
    newer = Wheel("flink-dist-3.jar", *JARS[1:])
    install(lock, folder, newer.unpack)
    assert {file.name for file in folder.glob("flink-dist-*")} == {"flink-dist-3.jar"}


def test_a_wheel_without_a_jar_installs_nothing(lock: Path, tmp_path: Path) -> None:
    folder = tmp_path / "jars"
    with pytest.raises(FlinkJarsError, match="log4j-core"):
        install(lock, folder, Wheel(JARS[0], JARS[1], JARS[3]).unpack)
    assert not are_in_place(lock, folder)
    assert list(folder.iterdir()) == []
