"""The command line of ``solve``: options that replace values of the policy."""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from ballast.contracts.policy import JobPolicy
from solvers.model.budget import Budget
from solvers.model.stop import Stop
from solvers.planner.registry import METHOD_NAMES
from spark_jobs.program.arguments import add_run_arguments

UNLIMITED = "none"
LARGEST = {
    "moves": 10**7, "bytes": 10**15, "pause_s": 10**15, "seconds": 3600, "steps": 10**6,
    "seed": 2**31 - 1,
}  # fmt: skip


@dataclass(frozen=True)
class SolveOptions:
    """Options of one solve. With None the policy of the snapshot decides."""

    budget_moves: int | str | None = None
    budget_bytes: int | str | None = None
    budget_pause_s: float | str | None = None
    solver_seconds: float | None = None
    solver_steps: int | None = None
    seed: int | None = None
    method: str | None = None

    def budget(self, policy: JobPolicy, parent_version: int) -> Budget:
        """The budget of this solve, for a plan that replaces version ``parent_version``."""
        usual, own = policy.budgets, policy.budgets.of(parent_version)
        return Budget(
            moves=_limit(self.budget_moves, usual.moves, own.moves),
            bytes=_limit(self.budget_bytes, usual.bytes, own.bytes),
            pause_s=_limit(self.budget_pause_s, usual.pause_s, own.pause_s),
        )

    def stop(self, policy: JobPolicy) -> Stop:
        """When the solver stops. A stop by steps alone is repeatable, so that with steps and
        without seconds no clock runs."""
        if self.solver_steps is not None:
            return Stop(self.solver_seconds, self.solver_steps)
        return Stop(self.solver_seconds or policy.solver.seconds)

    def params(self, policy: JobPolicy) -> Mapping[str, Any]:
        """The parameters of the method; those of the policy are for the policy's own method."""
        is_other = self.method is not None and self.method != policy.solver.method
        return {} if is_other else policy.solver.params

    @classmethod
    def of(cls, arguments: Namespace) -> SolveOptions:
        """The options that :func:`add_arguments` parsed."""
        return cls(**{field.name: getattr(arguments, field.name) for field in fields(cls)})


def _limit(
    option: int | float | str | None, usual: int | float | None, own: int | float | None
) -> Any:
    """The limit on the command line, or else that of the policy; ``none`` removes the limit.

    The form of a run is filled in with the usual limits. An option that equals the usual limit
    therefore counts as not set, and a first plan has its ``own`` limit.
    """
    if option is None:
        return own
    wanted = None if option == UNLIMITED else option
    return own if wanted == usual else wanted


def _whole(name: str, *, least: int = 0, none_allowed: bool = False) -> Callable[[str], int | str]:
    end = " or none" if none_allowed else ""
    allowed = f"a whole number from {least} to {LARGEST[name]}{end}"

    def parse(text: str) -> int | str:
        if none_allowed and text == UNLIMITED:
            return text
        if not re.fullmatch(r"[0-9]{1,16}", text) or not least <= int(text) <= LARGEST[name]:
            raise ArgumentTypeError(f"{text!r} cannot be used; allowed: {allowed}")
        return int(text)

    return parse


def _seconds(name: str, *, none_allowed: bool = False) -> Callable[[str], float | str]:
    """Seconds. Those of the solver must be above 0; a pause budget may be 0."""
    least = "from 0" if none_allowed else "above 0"
    allowed = f"seconds {least} to {LARGEST[name]}" + (" or none" if none_allowed else "")

    def parse(text: str) -> float | str:
        if none_allowed and text == UNLIMITED:
            return text
        is_number = re.fullmatch(r"[0-9]{1,16}(\.[0-9]{1,20})?(e-?[0-9]{1,3})?", text)
        if not is_number or float(text) > LARGEST[name] or (not none_allowed and float(text) <= 0):
            raise ArgumentTypeError(f"{text!r} cannot be used; allowed: {allowed}")
        return float(text)

    return parse


def _method(text: str) -> str | None:
    """A method by name; None if the text is empty, as that of a form is."""
    if text and text not in METHOD_NAMES:
        raise ArgumentTypeError(f"{text[:40]!r} is no method; allowed: {', '.join(METHOD_NAMES)}")
    return text or None


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of ``solve``. Defaults come from the policy in the snapshot."""
    add_run_arguments(parser)
    limits = {"budget-moves": _whole("moves", none_allowed=True),
              "budget-bytes": _whole("bytes", none_allowed=True),
              "budget-pause-s": _seconds("pause_s", none_allowed=True)}  # fmt: skip
    for name, parse in limits.items():
        parser.add_argument(f"--{name}", type=parse, help="limit of this plan, or none")
    parser.add_argument("--solver-seconds", type=_seconds("seconds"), help="time for the solver")
    parser.add_argument(
        "--solver-steps", type=_whole("steps", least=1),
        help="stop after this number of steps instead of by the clock, which is repeatable",
    )  # fmt: skip
    parser.add_argument("--seed", type=_whole("seed"), help="random seed")
    parser.add_argument("--method", type=_method, help="method to use; empty: the policy's")
