"""A Maven project is built from files that are checked first."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.maven_build import LockedFile, MavenError, build, fetch_missing, main, read_lock

CONTENT = b"a jar"
GOOD = LockedFile(hashlib.sha256(CONTENT).hexdigest(), "org/a/a-1.jar")
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def fetch() -> Callable[[Path], None]:
    """Fills a folder as Maven does: with one jar."""

    def fill(folder: Path) -> None:
        (folder / GOOD.path).parent.mkdir(parents=True)
        (folder / GOOD.path).write_bytes(CONTENT)

    return fill


def no_network(_: Path) -> None:
    raise AssertionError("nothing is to be fetched")


def test_a_missing_file_is_fetched_once(fetch: Callable[[Path], None], tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    fetch_missing([GOOD], repository, fetch)
    assert (repository / GOOD.path).read_bytes() == CONTENT
    fetch_missing([GOOD], repository, no_network)


def test_a_file_with_another_checksum_is_refused_and_nothing_is_left(
    fetch: Callable[[Path], None], tmp_path: Path
) -> None:
    repository = tmp_path / "repository"
    with pytest.raises(MavenError, match=r"org/a/a-1\.jar is refused.*expected 0{64}"):
        fetch_missing([LockedFile("0" * 64, GOOD.path)], repository, fetch)
    assert not list(repository.rglob("*.*"))


def test_a_damaged_file_is_fetched_again(fetch: Callable[[Path], None], tmp_path: Path) -> None:
    file = tmp_path / "repository" / GOOD.path
    file.parent.mkdir(parents=True)
    file.write_bytes(b"damaged")
    fetch_missing([GOOD], tmp_path / "repository", fetch)
    assert file.read_bytes() == CONTENT


def test_a_file_that_was_not_fetched_is_refused_and_nothing_is_left(
    fetch: Callable[[Path], None], tmp_path: Path
) -> None:
    other = LockedFile(GOOD.sha256, "org/b/b-1.jar")
    with pytest.raises(MavenError, match=r"org/b/b-1\.jar is refused: its sha256 is missing"):
        fetch_missing([GOOD, other], tmp_path / "repository", fetch)
    assert not list((tmp_path / "repository").rglob("*.*"))


@pytest.mark.parametrize("line", ["abc", f"{'0' * 64} /etc/passwd", f"{'0' * 64} ../x", "0 a b"])
def test_a_line_that_is_no_checksum_and_path_is_refused(tmp_path: Path, line: str) -> None:
    lock = tmp_path / "maven.lock"
    lock.write_text(f"# a comment\n{line}\n")
    with pytest.raises(MavenError, match="not 'sha256 path'"):
        read_lock(lock)


def test_no_maven_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MavenError, match="apt-get install maven"):
        build(tmp_path, tmp_path / "repository")


def test_a_project_without_a_lock_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path)]) == 1
    assert "maven.lock" in capsys.readouterr().err


def test_the_jar_is_built_against_the_version_of_the_broker() -> None:
    locked = {file.path for file in read_lock(ROOT / "engines" / "kafka-assignor" / "maven.lock")}
    broker = (ROOT / "tools" / "kafka-jars.lock").read_text(encoding="utf-8")
    version = next(line.split()[3] for line in broker.splitlines() if " kafka-clients " in line)
    assert f"org/apache/kafka/kafka-clients/{version}/kafka-clients-{version}.jar" in locked
