"""The sentence that says what to do is found in what Spark makes of a task's error."""

from __future__ import annotations

import pytest

from ballast.contracts.errors import InvalidInput, StateNotShared
from ballast.streaming.task_errors import error_of_task

SPARKS = """Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent:
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "state_token.py", line 51, in check_on_worker
    raise StateNotShared(
ballast.contracts.errors.{name}: the state folder /srv/state is not the one; to fix it: mount it

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException
"""


@pytest.mark.parametrize("kind", [StateNotShared, InvalidInput])
def test_an_error_that_a_task_raised_on_purpose_is_found(kind: type[Exception]) -> None:
    found = error_of_task(RuntimeError(SPARKS.format(name=kind.__name__)))
    assert type(found) is kind
    assert str(found) == "the state folder /srv/state is not the one; to fix it: mount it"


def test_other_errors_of_a_task_stay_as_they_are() -> None:
    assert error_of_task(RuntimeError(SPARKS.format(name="Unknown"))) is None
    assert error_of_task(RuntimeError("executor lost")) is None
