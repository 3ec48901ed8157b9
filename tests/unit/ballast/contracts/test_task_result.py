"""The result of a program is written for its task; without a task nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from ballast.contracts.errors import GateFailed, NotFound
from ballast.contracts.task_result import (
    RESULT_FILE_VARIABLE,
    Notice,
    Refusal,
    read_task_result,
    refusal_of,
    write_task_notices,
    write_task_refusal,
    write_task_result,
)


@pytest.fixture
def result_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "task-result.json"
    monkeypatch.setenv(RESULT_FILE_VARIABLE, str(path))
    return path


def test_values_are_added_to_what_was_handed_on_before(result_file: Path) -> None:
    write_task_result(outcome="waiting")
    write_task_result(plan_id="p", reasons=["noon"])
    assert read_task_result(result_file) == {
        "outcome": "waiting",
        "plan_id": "p",
        "reasons": ["noon"],
    }
    assert list(result_file.parent.iterdir()) == [result_file]


def test_notices_take_the_place_of_those_set_before(result_file: Path) -> None:
    write_task_notices(Notice("published", "version 4"))
    write_task_result(outcome="published")
    write_task_notices(Notice("rolled_back", "to version 2"), Notice("late", "late"))
    assert read_task_result(result_file) == {
        "outcome": "published",
        "notices": [
            {"kind": "rolled_back", "text": "to version 2"}, {"kind": "late", "text": "late"}
        ],
    }  # fmt: skip


def test_a_refusal_says_whether_waiting_may_cure_it(result_file: Path) -> None:
    write_task_refusal(GateFailed("node-1 is silent"), "node-1 is silent")
    assert refusal_of(read_task_result(result_file)) == Refusal(
        "GateFailed", "node-1 is silent", True
    )
    write_task_refusal(NotFound("no version 9"), "no version 9")
    assert refusal_of(read_task_result(result_file)) == Refusal("NotFound", "no version 9", False)


def test_without_a_task_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RESULT_FILE_VARIABLE, raising=False)
    write_task_result(outcome="published")
    write_task_notices(Notice("published", "version 4"))


@pytest.mark.parametrize("text", [None, "", "[1]", '{"half'])
def test_a_program_that_died_has_handed_nothing_on(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "task-result.json"
    if text is not None:
        path.write_text(text)
    assert read_task_result(path) == {}
    assert refusal_of({}) is None
