"""Versions that fit together, and those that do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from ballast.contracts.spark import DELTA_VERSION, JARS
from ballast.doctor.finding import CheckStatus
from ballast.doctor.versions import (
    check_airflow,
    check_delta_rs,
    check_jars,
    check_java,
    check_python,
    check_spark,
    installed_versions,
)

OK, WARNING, FAILED, SKIPPED = (
    CheckStatus.OK, CheckStatus.WARNING, CheckStatus.FAILED, CheckStatus.NOT_CHECKED,
)  # fmt: skip
OPENJDK = 'openjdk version "{}" 2026-01-20\nOpenJDK Runtime Environment\n'


@pytest.mark.parametrize(("version", "status"), [((3, 11), OK), ((3, 12), OK), ((3, 10), FAILED)])
def test_python(version: tuple[int, int], status: CheckStatus) -> None:
    found = check_python(version)
    assert (found.status, bool(found.remedy)) == (status, status is FAILED)


@pytest.mark.parametrize(
    ("output", "status", "seen"),
    [
        (OPENJDK.format("17.0.9"), OK, "Java 17"),
        (OPENJDK.format("21"), OK, "Java 21"),
        ('java version "1.8.0_392"\n', FAILED, "Java 8"),
        (OPENJDK.format("11.0.2"), FAILED, "Java 11; Spark needs 17 or 21"),
        ("no such thing\n", FAILED, "'no such thing'"),
        ("", FAILED, "nothing"),
        (None, FAILED, "no Java"),
    ],
)
def test_java(output: str | None, status: CheckStatus, seen: str) -> None:
    found = check_java(output, has_spark=True)
    assert (found.status, seen in found.seen) == (status, True)
    assert check_java(output, has_spark=False).status is SKIPPED


@pytest.mark.parametrize(
    ("pyspark", "delta_spark", "status", "seen"),
    [
        (None, None, SKIPPED, "not installed"),
        ("4.2.0", DELTA_VERSION, OK, "PySpark 4.2.0"),
        ("4.2.0", None, FAILED, "without delta-spark"),
        ("4.2.0", "4.0.0", FAILED, "different versions"),
        ("3.5.4", DELTA_VERSION, FAILED, "the jars are for Spark 4.2"),
        ("4.20.0", DELTA_VERSION, FAILED, "the jars are for Spark 4.2"),
    ],
)
def test_spark_and_delta(
    pyspark: str | None, delta_spark: str | None, status: CheckStatus, seen: str
) -> None:
    found = check_spark(pyspark, delta_spark)
    assert (found.status, seen in found.seen) == (status, True)


def test_airflow_and_deltalake_older_and_newer_than_tested() -> None:
    assert [check_airflow(v).status for v in (None, "2.11.0", "3.2.9", "3.3.5", "3.10.0")] == [
        SKIPPED, FAILED, FAILED, OK, WARNING]  # fmt: skip
    assert [check_delta_rs(v).status for v in (None, "0.25.0", "1.6.6", "2.0")] == [
        FAILED, FAILED, OK, WARNING]  # fmt: skip


def test_jars(tmp_path: Path) -> None:
    missing = check_jars(tmp_path, has_spark=True, is_local=True)
    assert (missing.status, JARS[0] in missing.seen) == (FAILED, True)
    assert check_jars(tmp_path, has_spark=True, is_local=False).status is SKIPPED
    for jar in JARS:
        (tmp_path / jar).touch()
    assert check_jars(tmp_path, has_spark=True, is_local=True).status is OK


def test_the_versions_of_this_host_are_found(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    program.chmod(0o755)
    found = installed_versions({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
    assert found.java == 'openjdk version "11.0.2"\n'
    assert found.deltalake is not None
    assert installed_versions({"JAVA_HOME": "/nowhere"}).java is None
