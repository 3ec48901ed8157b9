"""The choice of Java, and the message about one that Spark cannot use."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedded.java import java_command, java_problem, major_version


def fake_java(home: Path, version: str) -> dict[str, str]:
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    command.chmod(0o755)
    return {"JAVA_HOME": str(home), "PATH": "/usr/bin:/bin"}


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_392"', 8),
        ("command not found", None),
    ],
)
def test_the_major_version_is_read_from_what_java_prints(text: str, major: int | None) -> None:
    assert major_version(text) == major


@pytest.mark.parametrize("version", ["17.0.15", "21.0.2"])
def test_a_supported_java_is_no_problem(tmp_path: Path, version: str) -> None:
    assert java_problem(fake_java(tmp_path, version)) is None


def test_an_old_java_is_named_with_its_version(tmp_path: Path) -> None:
    problem = java_problem(fake_java(tmp_path, "1.8.0_392"))
    assert problem is not None
    assert "is Java 8; Spark needs 17 or 21" in problem


def test_a_java_home_without_java_is_named_and_the_path_is_not_searched(tmp_path: Path) -> None:
    env = {"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    assert java_command(env) is None
    assert str(tmp_path) in (java_problem(env) or "")


def test_no_java_at_all_is_said(tmp_path: Path) -> None:
    assert "no Java on the PATH" in (java_problem({"PATH": str(tmp_path)}) or "")
