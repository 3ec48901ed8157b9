"""The pause that moves cost a job: the sum over moves of (c0 + alpha x bytes)."""

from __future__ import annotations

import numpy as np

from solvers.model.problem import BoolArray, FloatArray, Problem


def move_pause_s(problem: Problem) -> FloatArray:
    """[G]: the pause for a move of each key group, c0 + alpha x bytes."""
    seconds = problem.pause_c0_s + problem.pause_s_per_byte * problem.state_bytes
    return np.asarray(seconds, dtype=np.float64)


def total_pause_s(problem: Problem, moved: BoolArray) -> float:
    """Return the pause of the given moves: the sum of (c0 + alpha x bytes)."""
    return float(move_pause_s(problem)[moved].sum())
