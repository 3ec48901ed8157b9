"""PuLP with CBC on the plain model of [ICDE17, 4.3.1]."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from bench.rebalance.peers.exchange import Answer, Instance, Solve, TracePoint, serve
from bench.rebalance.peers.pulp_model import PlainModel

FOUND = re.compile(
    r"(?:solution of|found solution of|Solution of)\s+(\S+).*\((\d+\.?\d*) seconds\)"
)


def build(instance: Instance) -> Solve:
    model = PlainModel(instance)

    def solve(seconds: float, seed: int) -> Answer:
        with tempfile.TemporaryDirectory() as folder:
            return _solve(model, seconds, seed, Path(folder) / "cbc.log")

    return solve


def _solve(model: PlainModel, seconds: float, seed: int, log: Path) -> Answer:
    import pulp

    solver = pulp.PULP_CBC_CMD(
        msg=True,
        timeLimit=seconds,
        gapRel=0.0,
        logPath=str(log),
        options=[f"randomCbcSeed {seed}", f"randomSeed {seed}"],
    )
    model.lp.solve(solver)
    text = log.read_text(encoding="utf-8", errors="replace")
    words = _status(text)
    found = model.lp.sol_status in (pulp.LpSolutionOptimal, pulp.LpSolutionIntegerFeasible)
    plan = model.assignment() if found else None
    return Answer(plan, 0.0, note=words, is_final=words == "optimal", trace=_trace(text))


def _status(log: str) -> str:
    """The result line of CBC itself; PuLP also says "Optimal" after a time limit."""
    if "Result - Optimal solution found" in log:
        return "optimal"
    return "stopped on time" if "Stopped on time limit" in log else "no result line"


def _trace(log: str) -> tuple[TracePoint, ...]:
    points = [(float(s), 100.0 * float(value)) for value, s in FOUND.findall(log)]
    return tuple(points)


if __name__ == "__main__":
    sys.exit(serve(build))
