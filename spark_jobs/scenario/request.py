"""A what-if request and its command line arguments."""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from solvers.model.objective import OBJECTIVES
from solvers.planner.registry import METHOD_NAMES
from solvers.planner.what_if_arguments import parse_factors, parse_pairs, split_names
from solvers.planner.what_if_problem import WhatIfQuestion
from spark_jobs.program.arguments import add_run_arguments, run_id
from spark_jobs.publication.review_answer import text_matching

TEXT = r"[A-Za-z0-9_.,=*: -]{0,2000}"
LIMIT = r"(none|[0-9]{1,16}(\.[0-9]{1,6})?)?"


@dataclass(frozen=True)
class WhatIfRequest:
    """A question, and the options of the plan for it. None: as the job's policy says."""

    question: WhatIfQuestion
    load_of: str | None = None
    """Run id or time of the snapshot whose load is used."""
    moves: str | None = None
    """Limit on moves: a number, or ``none`` for no limit; ``bytes`` and ``pause_s`` likewise."""
    bytes: str | None = None
    pause_s: str | None = None
    objective: str | None = None
    method: str | None = None
    hold_pct: float | None = None
    """Also find the fewest nodes of which none is above this percentage of its capacity."""
    frontier: bool = False
    """Also plan for several limits on moves."""
    seconds: float = 5.0
    """Time for each plan."""


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of ``what_if``; an empty text means as today."""
    add_run_arguments(parser)
    text = text_matching("text", TEXT)
    for name in ("without", "drain", "resize", "racks", "scale"):
        parser.add_argument(f"--{name}", type=text, default="", help="names, or NAME=VALUE, ...")
    parser.add_argument("--add", type=_number(0, 100_000, int), default=0, help="nodes to add")
    parser.add_argument("--load-of", type=_or_none(run_id), help="run or time whose load is used")
    for name in ("moves", "bytes", "pause-s"):
        parser.add_argument(f"--{name}", type=_or_none(text_matching("limit", LIMIT)))
    parser.add_argument("--objective", type=_one_of(OBJECTIVES))
    parser.add_argument("--method", type=_one_of(METHOD_NAMES))
    parser.add_argument("--hold-pct", type=_or_none(_number(0.001, 1000, float)))
    parser.add_argument("--frontier", choices=("true", "false"), default="false")
    parser.add_argument("--seconds", type=_number(0.1, 3600, float), default=5.0)


def request_of(arguments: Namespace) -> WhatIfRequest:
    """The request of arguments that :func:`add_arguments` parsed."""
    question = WhatIfQuestion(
        gone=split_names(arguments.without),
        leaving=split_names(arguments.drain),
        added=int(arguments.add),
        resized=parse_factors("resize", split_names(arguments.resize)),
        scaled=parse_factors("scale", split_names(arguments.scale)),
        racks=parse_pairs("racks", split_names(arguments.racks), "NODE=RACK, ..."),
    )
    return WhatIfRequest(
        question=question,
        load_of=arguments.load_of,
        moves=arguments.moves,
        bytes=arguments.bytes,
        pause_s=arguments.pause_s,
        objective=arguments.objective,
        method=arguments.method,
        hold_pct=arguments.hold_pct,
        frontier=arguments.frontier == "true",
        seconds=arguments.seconds,
    )


def _or_none(parse: Callable[[str], object]) -> Callable[[str], object]:
    return lambda text: parse(text) if text else None


def _one_of(allowed: Sequence[str]) -> Callable[[str], str | None]:
    def parse(text: str) -> str | None:
        if text and text not in allowed:
            raise ArgumentTypeError(f"{text[:40]!r} cannot be used; allowed: {', '.join(allowed)}")
        return text or None

    return parse


def _number(least: float, most: float, kind: Callable[[str], float]) -> Callable[[str], float]:
    def parse(text: str) -> float:
        is_number = re.fullmatch(r"[0-9]{1,16}(\.[0-9]{1,10})?", text)
        if not is_number or not least <= float(text) <= most:
            raise ArgumentTypeError(f"{text[:40]!r} cannot be used; allowed: {least:g} to {most:g}")
        try:
            return kind(text)
        except ValueError as error:
            raise ArgumentTypeError(f"{text!r} is not a whole number") from error

    return parse
