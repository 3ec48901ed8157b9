"""Runs HiGHS on a PuLP model and returns HiGHS's own status, bound and incumbent.

The model is passed as a whole, because PuLP adds columns one at a time, which is quadratic
(60,000 variables: 5 s, as a whole 0.3 s). A large model runs in a child process when there is a
time limit: HiGHS 1.15 does not check the time limit in its rounding heuristics, and overran a limit
of 10 s by more than a minute on 60 nodes x 1,200 key groups. A child process can be killed; it
sends each incumbent when it finds it. See ADR 4.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int32]

CHILD_FROM_COLUMNS = 10_000
"""Columns from which a child process is used. With fewer (9,800, on a busy machine) HiGHS overran
a limit of 3 s by 0.02 to 0.95 s."""
GRACE_S = 0.25
"""Seconds after its time limit in which a child may end by itself."""


@dataclass(frozen=True, eq=False)
class MipTask:
    """A mixed-integer program as arrays, rows compressed, with a start and options for HiGHS."""

    cost: FloatArray
    lower: FloatArray
    upper: FloatArray
    is_integer: npt.NDArray[np.bool_]
    row_lower: FloatArray
    row_upper: FloatArray
    row_start: IntArray
    row_column: IntArray
    row_value: FloatArray
    start: FloatArray
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def time_limit(self) -> float | None:
        limit = self.options.get("time_limit")
        return None if limit is None else float(limit)


@dataclass(frozen=True, eq=False)
class MipOutcome:
    """The outcome as HiGHS reports it: ``values`` is the best point, ``trace`` its history."""

    status: str
    dual_bound: float
    values: FloatArray | None
    trace: tuple[tuple[float, float], ...] = ()


class ModelRefused(Exception):
    """The solver does not accept the numbers of a model; a plan may exist nevertheless."""


def task_of(lp: Any) -> MipTask:
    """Translate a PuLP model that is to be minimised, and set ``index`` on its variables."""
    import pulp

    columns = lp.variables()
    for index, column in enumerate(columns):
        column.index = index
    rows = lp.constraints()
    return MipTask(
        cost=np.array([lp.objective.get(c, 0.0) for c in columns], dtype=np.float64),
        lower=_or_infinite([c.lowBound for c in columns], -np.inf),
        upper=_or_infinite([c.upBound for c in columns], np.inf),
        is_integer=np.array([c.cat == pulp.LpInteger for c in columns]),
        row_lower=_or_infinite([row.getLb() for row in rows], -np.inf),
        row_upper=_or_infinite([row.getUb() for row in rows], np.inf),
        row_start=np.cumsum([0] + [len(row) for row in rows], dtype=np.int32),
        row_column=np.array([c.index for row in rows for c in row], dtype=np.int32),
        row_value=np.array([v for row in rows for v in row.values()], dtype=np.float64),
        start=np.zeros(len(columns)),
    )


def _or_infinite(values: list[float | None], infinity: float) -> FloatArray:
    return np.array([infinity if value is None else value for value in values], dtype=np.float64)


def run(task: MipTask) -> MipOutcome:
    """Solve a task within its time limit; a large one in a child process.

    Args:
        task: The model, the start and the options of HiGHS.

    Returns:
        Status, bound, the best point (None if none was found) and its history.

    Raises:
        ModelRefused: HiGHS does not accept the numbers of the model.
        RuntimeError: HiGHS has no option of a given name.
    """
    if task.time_limit is not None and len(task.cost) >= CHILD_FROM_COLUMNS:
        return _run_in_child(task)
    return _run_here(task)


def _run_here(task: MipTask, report: Callable[[MipOutcome], None] | None = None) -> MipOutcome:
    import highspy

    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    for name, value in task.options.items():
        if highs.setOptionValue(name, value) == highspy.HighsStatus.kError:
            raise RuntimeError(f"HiGHS refuses the option {name} = {value!r}")
    if highs.passModel(_highs_lp(task)) == highspy.HighsStatus.kError:
        raise ModelRefused(
            "HiGHS refuses the model: its numbers are too large, or differ too much in size"
        )
    columns = np.arange(len(task.start), dtype=np.int32)
    highs.setSolution(len(columns), columns, task.start)
    watcher = _Watcher(report)
    highs.cbMipImprovingSolution.subscribe(watcher.improved)
    if report is not None:
        highs.cbMipLogging.subscribe(watcher.bounded)
    highs.run()
    info = highs.getInfo()
    has_point = info.primal_solution_status == highspy.kSolutionStatusFeasible
    return MipOutcome(
        status=highs.modelStatusToString(highs.getModelStatus()),
        dual_bound=float(info.mip_dual_bound),
        values=np.array(highs.getSolution().col_value) if has_point else None,
        trace=tuple(watcher.trace),
    )


class _Watcher:
    """Records incumbents and bounds in HiGHS's callbacks."""

    def __init__(self, report: Callable[[MipOutcome], None] | None) -> None:
        self.began = time.monotonic()
        self.trace: list[tuple[float, float]] = []
        self.values: FloatArray | None = None
        self.report = report

    def improved(self, event: Any) -> None:
        objective = float(event.data_out.objective_function_value)
        self.trace.append((time.monotonic() - self.began, objective))
        if self.report is not None:
            self.values = np.array(event.data_out.mip_solution)
            self.bounded(event)

    def bounded(self, event: Any) -> None:
        if self.report is not None:
            bound = float(event.data_out.mip_dual_bound)
            self.report(MipOutcome("Ended from outside", bound, self.values, tuple(self.trace)))


def _highs_lp(task: MipTask) -> Any:
    import highspy

    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = len(task.cost), len(task.row_lower)
    model.col_cost_, model.col_lower_, model.col_upper_ = task.cost, task.lower, task.upper
    model.row_lower_, model.row_upper_ = task.row_lower, task.row_upper
    kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
    model.integrality_ = [kinds[i] for i in task.is_integer.astype(int).tolist()]
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = task.row_start
    model.a_matrix_.index_ = task.row_column
    model.a_matrix_.value_ = task.row_value
    return model


def _run_in_child(task: MipTask) -> MipOutcome:
    """Return the last outcome that the child sent within the time limit; then kill the child."""
    deadline = time.monotonic() + (task.time_limit or 0.0) + GRACE_S
    child = subprocess.Popen(
        [sys.executable, "-c", f"from {__name__} import child_main; child_main()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
    outcomes: list[MipOutcome] = []
    listener = threading.Thread(target=_listen, args=(child.stdout, outcomes), daemon=True)
    listener.start()
    try:
        _send_task(task, child.stdin)
        listener.join(max(0.0, deadline - time.monotonic()))
    finally:
        child.kill()
        child.wait()
        listener.join(1.0)
    return outcomes[-1] if outcomes else MipOutcome("Ended from outside", -np.inf, None)


def _send_task(task: MipTask, stream: IO[bytes] | None) -> None:
    if stream is None:
        return
    try:
        with stream:
            pickle.dump((time.time(), task), stream)
    except BrokenPipeError:
        return  # The child has died; the caller reports that it sent nothing.


def _listen(stream: IO[bytes], outcomes: list[MipOutcome]) -> None:
    while True:
        try:
            outcomes.append(pickle.load(stream))  # noqa: S301 - our own child
        except (EOFError, pickle.UnpicklingError, ValueError, OSError):
            return


def child_main() -> None:
    """Read a task from stdin and write outcomes to stdout; nothing else is written there.

    Prints of libraries go to stderr.
    """
    with os.fdopen(os.dup(1), "wb") as output:
        os.dup2(2, 1)
        sent_at, task = pickle.load(sys.stdin.buffer)  # noqa: S301 - our parent
        if task.time_limit is not None:
            # The start of Python used a part of the time.
            left = task.time_limit - max(0.0, time.time() - sent_at)
            task.options["time_limit"] = max(0.01, left)

        def send_outcome(outcome: MipOutcome) -> None:
            pickle.dump(outcome, output)
            output.flush()

        send_outcome(_run_here(task, send_outcome))
