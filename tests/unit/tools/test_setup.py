"""When set-up has work to do, and what it reuses of an earlier run."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ballast.contracts.settings import load_settings
from tools import setup
from tools.setup import (
    KEY_FILES,
    SetupError,
    VirtualEnvironment,
    compile_loops,
    jars_folder,
    key_of,
    one_at_a_time,
)

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose environment is complete and current."""
    for name in KEY_FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    environment = VirtualEnvironment(tmp_path)
    environment.python.parent.mkdir(parents=True)
    environment.python.symlink_to(sys.executable)
    environment.whole.write_text(str(tmp_path))
    environment.finish()
    return tmp_path


def test_a_finished_environment_is_current(checkout: Path) -> None:
    assert VirtualEnvironment(checkout).is_current()
    assert VirtualEnvironment(checkout).is_whole()


@pytest.mark.parametrize("name", KEY_FILES)
def test_a_change_of_any_input_asks_for_another_set_up(checkout: Path, name: str) -> None:
    (checkout / name).write_text("changed")
    assert not VirtualEnvironment(checkout).is_current()


def test_an_environment_whose_install_was_cut_short_is_not_trusted(checkout: Path) -> None:
    VirtualEnvironment(checkout).whole.unlink()
    assert not VirtualEnvironment(checkout).is_whole()


def test_a_moved_checkout_gets_a_new_environment(checkout: Path) -> None:
    moved = checkout.rename(checkout.with_name("moved"))
    assert not VirtualEnvironment(moved).is_current()
    assert not VirtualEnvironment(moved).is_whole()


def test_the_key_depends_on_the_place(checkout: Path, tmp_path_factory: pytest.TempPathFactory):
    other = tmp_path_factory.mktemp("other")
    (other / "tools").mkdir()
    for name in KEY_FILES:
        (other / name).write_text(name)
    assert key_of(other) != key_of(checkout)


@pytest.mark.parametrize(
    "env", [{}, {"BALLAST_HOME": "elsewhere"}, {"BALLAST_JARS": "/j", "BALLAST_HOME": "/h"}]
)
def test_the_jars_go_where_the_settings_look_for_them(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert jars_folder(env, tmp_path) == load_settings(env).jars


def test_no_java_where_it_is_not_ours_to_install_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(setup, "java_problem", lambda: "no Java")
    monkeypatch.setattr(setup, "_may_install", lambda: False)
    with pytest.raises(SetupError, match="apt-get install openjdk-17-jre-headless"):
        setup.ensure_java()


def test_a_wrong_java_home_is_never_answered_by_installing_another(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(setup, "_may_install", lambda: True)
    with pytest.raises(SetupError, match="JAVA_HOME is"):
        setup.ensure_java()


def test_a_second_set_up_waits_for_the_first(checkout: Path) -> None:
    order: list[str] = []

    def second() -> None:
        with one_at_a_time(checkout):
            order.append("second")

    with one_at_a_time(checkout):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(timeout=0.3)
        order.append("first")
    thread.join(timeout=5)
    assert order == ["first", "second"]


def test_a_python_that_is_too_old_is_refused_with_what_to_do(tmp_path: Path) -> None:
    old = tmp_path / "python"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    answer = subprocess.run(
        [ROOT / "tools" / "setup.sh"],
        env={"PATH": "/usr/bin:/bin", "PYTHON": str(old)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 1
    assert "no Python 3.11 or 3.12 found" in answer.stderr
    assert "make setup PYTHON=" in answer.stderr


def test_uv_is_pinned_to_the_same_version_in_both_locks() -> None:
    def pin(lock: Path) -> str:
        return next(line for line in lock.read_text().splitlines() if line.startswith("uv=="))

    assert pin(ROOT / "tools" / "bootstrap.lock") == pin(ROOT / "requirements.lock")


def test_no_lock_holds_an_address() -> None:
    for lock in [ROOT / "requirements.lock", *(ROOT / "tools").glob("*.lock")]:
        assert not re.search(r"https?://", lock.read_text())


@pytest.fixture
def loops(checkout: Path) -> Path:
    """A checkout whose compiled loops are one file in the place of numba's cache."""
    folder = checkout / "solvers" / "rebalance"
    (folder / "__pycache__").mkdir(parents=True)
    (checkout / "solvers" / "__init__.py").write_text("")
    (folder / "__init__.py").write_text("")
    (folder / "compile_kernels.py").write_text(
        "import pathlib\n"
        "def main():\n"
        "    folder = pathlib.Path(__file__).parent / '__pycache__'\n"
        "    (folder / 'loop.nbi').write_text('')\n"
        "    (folder / 'compiled').open('a').write('x')\n"
    )
    return folder


def compiled(loops: Path) -> int:
    compile_loops(VirtualEnvironment(loops.parents[1]))
    return len((loops / "__pycache__" / "compiled").read_text())


def test_loops_are_compiled_once(loops: Path) -> None:
    assert [compiled(loops), compiled(loops)] == [1, 1]


def test_loops_are_compiled_again_when_a_source_was_written_or_the_cache_is_gone(
    loops: Path,
) -> None:
    assert compiled(loops) == 1
    (loops / "kernels.py").write_text("# changed")
    assert compiled(loops) == 2
    (loops / "__pycache__" / "loop.nbi").unlink()
    assert compiled(loops) == 3
