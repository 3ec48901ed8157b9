"""PuLP with HiGHS on the plain model of [ICDE17, 4.3.1]."""

from __future__ import annotations

import sys
import time
from typing import Any

from bench.rebalance.peers.exchange import Answer, Instance, Solve, TracePoint, serve
from bench.rebalance.peers.pulp_model import PlainModel

FEASIBLE_POINT = 2
"""HiGHS's own status for a primal solution that keeps all rows; PuLP says "Optimal" in any case."""


def build(instance: Instance) -> Solve:
    model = PlainModel(instance)

    def solve(seconds: float, seed: int) -> Answer:
        return _solve(model, seconds, seed)

    return solve


def _solve(model: PlainModel, seconds: float, seed: int) -> Answer:
    import highspy
    import pulp

    trace: list[TracePoint] = []
    began = time.monotonic()

    def note(_kind: Any, _message: str, out: Any, _into: Any, _user: Any) -> None:
        trace.append((time.monotonic() - began, 100.0 * out.mip_primal_bound))

    solver = pulp.HiGHS(
        msg=False,
        timeLimit=seconds,
        threads=1,
        gapRel=0.0,
        random_seed=seed,
        callbackTuple=(note, None),
        callbacksToActivate=[highspy.cb.HighsCallbackType.kCallbackMipImprovingSolution],
    )
    model.lp.solve(solver)
    highs = model.lp.solverModel
    words = highs.modelStatusToString(highs.getModelStatus())
    if highs.getInfo().primal_solution_status != FEASIBLE_POINT:
        return Answer(None, 0.0, note=words)
    return Answer(
        model.assignment(), 0.0, note=words, is_final=words == "Optimal", trace=tuple(trace)
    )


if __name__ == "__main__":
    sys.exit(serve(build))
