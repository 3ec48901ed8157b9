"""Jars are installed only if their content is the expected one."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tools.jars import Jar, JarError, install, ivy_command, missing, read_lock

ROOT = Path(__file__).resolve().parents[3]
CONTENT = b"the jar"
JAR = Jar(hashlib.sha256(CONTENT).hexdigest(), "org", "thing", "1.0")


def fetch_right(jar: Jar, work: Path) -> Path:
    file = work / jar.file_name
    file.write_bytes(CONTENT)
    return file


def fetch_wrong(jar: Jar, work: Path) -> Path:
    file = work / jar.file_name
    file.write_bytes(b"something else")
    return file


def fetch_never(jar: Jar, _work: Path) -> Path:
    raise AssertionError(f"{jar} was fetched")


def test_a_right_jar_is_put_in_place_and_nothing_beside_it(tmp_path: Path) -> None:
    install([JAR], tmp_path / "jars", fetch_right)
    assert [file.name for file in (tmp_path / "jars").iterdir()] == ["thing-1.0.jar"]


def test_a_wrong_checksum_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(JarError, match=r"org:thing:1\.0 is refused.*expected"):
        install([JAR], tmp_path, fetch_wrong)
    assert list(tmp_path.iterdir()) == []


def test_a_jar_that_is_there_is_not_fetched_again(tmp_path: Path) -> None:
    install([JAR], tmp_path, fetch_right)
    install([JAR], tmp_path, fetch_never)


def test_a_damaged_jar_counts_as_missing_and_is_replaced(tmp_path: Path) -> None:
    (tmp_path / JAR.file_name).write_bytes(CONTENT[:3])
    assert missing([JAR], tmp_path) == [JAR]
    install([JAR], tmp_path, fetch_right)
    assert missing([JAR], tmp_path) == []


def test_a_refused_jar_leaves_the_damaged_one_as_it_was(tmp_path: Path) -> None:
    (tmp_path / JAR.file_name).write_bytes(b"old")
    with pytest.raises(JarError):
        install([JAR], tmp_path, fetch_wrong)
    assert (tmp_path / JAR.file_name).read_bytes() == b"old"


def test_a_lock_line_of_another_form_is_named(tmp_path: Path) -> None:
    lock = tmp_path / "x.lock"
    lock.write_text("# comment\n\nabc org thing 1.0\n")
    with pytest.raises(JarError, match="abc org thing"):
        read_lock(lock)


def test_the_locks_of_the_project_can_be_read() -> None:
    assert [str(jar) for jar in read_lock(ROOT / "tools" / "delta-jars.lock")] == [
        "io.delta:delta-spark_4.2_2.13:4.4.0",
        "io.delta:delta-storage:4.4.0",
    ]
    assert read_lock(ROOT / "tools" / "s3-jars.lock")[0].artifact == "hadoop-aws"


def test_ivy_is_asked_for_one_jar_without_what_it_depends_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BALLAST_IVY_SETTINGS", "mirror.xml")
    command = ivy_command(JAR, tmp_path, Path("ivy.jar"), "java")
    assert "-notransitive" in command
    assert command[command.index("-settings") + 1] == "mirror.xml"
    assert command[command.index("-dependency") + 1 :][:3] == ["org", "thing", "1.0"]
