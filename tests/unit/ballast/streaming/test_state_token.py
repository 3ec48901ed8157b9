"""State that tasks do not share with the driver, or that is missing at a start, stops the job."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ballast.contracts.errors import StateNotShared
from ballast.streaming.state_token import TOKEN_PREFIX, StateTokens


@pytest.fixture
def tokens(tmp_path: Path) -> StateTokens:
    (tmp_path / "decisions").mkdir()
    return StateTokens(tmp_path / "state", tmp_path / "decisions" / "state-token.json")


def test_a_task_that_sees_the_folder_of_the_driver_may_run(tokens: StateTokens) -> None:
    tokens.start(is_first_start=True).check_on_worker()


def test_a_task_with_a_folder_of_its_own_is_refused(tokens: StateTokens) -> None:
    token = tokens.start(is_first_start=True)
    shutil.rmtree(tokens.root)
    with pytest.raises(StateNotShared, match=r"on host .* is not the one that the driver"):
        token.check_on_worker()
    tokens.root.mkdir()
    with pytest.raises(StateNotShared, match="BALLAST_HOME on storage"):
        token.check_on_worker()


def test_a_task_with_a_copy_of_the_folder_from_before_the_start_is_refused(
    tokens: StateTokens, tmp_path: Path
) -> None:
    tokens.start(is_first_start=True)
    shutil.copytree(tokens.root, tmp_path / "copy")
    token = tokens.start(is_first_start=False)
    shutil.rmtree(tokens.root)
    (tmp_path / "copy").rename(tokens.root)
    with pytest.raises(StateNotShared):
        token.check_on_worker()


def test_a_task_of_an_earlier_driver_is_refused(tokens: StateTokens) -> None:
    earlier = tokens.start(is_first_start=True)
    tokens.start(is_first_start=False).check_on_worker()
    with pytest.raises(StateNotShared):
        earlier.check_on_worker()


def test_a_missing_folder_is_refused_unless_the_job_is_new(tokens: StateTokens) -> None:
    tokens.start(is_first_start=True)
    shutil.rmtree(tokens.root)
    with pytest.raises(StateNotShared, match="is missing, or is not the one that the job used"):
        tokens.start(is_first_start=False)
    assert not tokens.root.exists()


def test_an_empty_folder_in_place_of_the_state_is_refused(tokens: StateTokens) -> None:
    tokens.start(is_first_start=True)
    shutil.rmtree(tokens.root)
    tokens.root.mkdir()
    with pytest.raises(StateNotShared):
        tokens.start(is_first_start=False)


def test_batches_without_a_recorded_token_and_without_state_are_refused(
    tokens: StateTokens,
) -> None:
    with pytest.raises(StateNotShared):
        tokens.start(is_first_start=False)


def test_a_start_that_was_interrupted_is_repeated(tokens: StateTokens) -> None:
    tokens.start(is_first_start=True)
    (tokens.root / f"{TOKEN_PREFIX}unrecorded").write_text("unrecorded")
    tokens.start(is_first_start=False).check_on_worker()
    assert len(list(tokens.root.glob(f"{TOKEN_PREFIX}*"))) == 1
