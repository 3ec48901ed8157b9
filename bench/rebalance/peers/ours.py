"""The search and the Flux of Ballast: ``solvers.solve`` on its first call in a new process.

As with the peers, importing is not part of the solve, which includes loading the compiled loops.
Everything after the arrays is timed. The cost of imports is measured by ``fresh_process``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bench.rebalance.cells import problem_of
from bench.rebalance.peers.exchange import Answer, Build, Instance, Solve, serve


def build_with(method: str) -> Build:
    def build(instance: Instance) -> Solve:
        from solvers.model.stop import Stop
        from solvers.rebalance.compile_kernels import make_ready
        from solvers.rebalance.solve import solve as rebalance_solve

        make_ready(several_resources=True)
        problem, budget = problem_of(instance)

        def solve(seconds: float, seed: int) -> Answer:
            stop = Stop(seconds=seconds)
            result = rebalance_solve(problem, budget, stop, seed=seed, method=method)
            extra = {"bound": result.bound, "gap": result.gap, "status": result.status.value}
            return Answer(
                result.assignment if result.is_solved else None,
                result.seconds,
                note=f"{result.method}, {result.status.value}",
                trace=tuple((s, distance) for s, _, distance in result.trace),
                extra=extra,
            )

        return solve

    return build


def main(arguments: Sequence[str]) -> int:
    method, *rest = arguments
    return serve(build_with(method), rest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
