"""Finds the error that a task raised on purpose in the error that Spark makes of it.

Spark hands the driver the traceback of a Python task as text. The person on call needs the one
sentence in it that says what to do.
"""

from __future__ import annotations

import re

from ballast.contracts.errors import BallastError, InvalidInput, StateNotShared

RAISED_IN_TASKS: tuple[type[BallastError], ...] = (StateNotShared, InvalidInput)
_NAMES = "|".join(kind.__name__ for kind in RAISED_IN_TASKS)
_RAISED = re.compile(rf"^\s*ballast\.contracts\.errors\.({_NAMES}): (.*)$", re.MULTILINE)


def error_of_task(error: BaseException) -> BallastError | None:
    """The error that a task raised on purpose, without Spark's text around it.

    Args:
        error: what running a Spark job raised.

    Returns:
        The same kind of error with the same message; None if no task raised one.
    """
    found = _RAISED.search(str(error))
    if found is None:
        return None
    kinds = {kind.__name__: kind for kind in RAISED_IN_TASKS}
    return kinds[found[1]](found[2].strip())
