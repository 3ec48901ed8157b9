"""Files between a measurement and a peer: an instance as an .npz file, answers as .npz files.

``serve`` is the main program of every peer: read, build, solve once per time limit, write. Only the
solve is timed, so that reading and building a model cost a peer nothing.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

TracePoint = tuple[float, float]
"""(seconds since the solve began, load distance in percent)."""


@dataclass(frozen=True)
class Instance:
    """A rebalance problem as arrays; every node stays, and nothing is pinned."""

    capacity: npt.NDArray[np.float64]  # [N, R]
    load: npt.NDArray[np.float64]  # [G, R]
    state_bytes: npt.NDArray[np.int64]  # [G]
    current: npt.NDArray[np.int64]  # [G]
    moves: int | None
    bytes: int | None

    @property
    def n_nodes(self) -> int:
        return len(self.capacity)

    @property
    def n_key_groups(self) -> int:
        return len(self.load)

    def fair_share(self) -> npt.NDArray[np.float64]:
        """[N, R]: the load of each node if the cluster were level."""
        mean = self.load.sum(axis=0) / self.capacity.sum(axis=0)
        return np.asarray(mean * self.capacity)

    def move_cost(self) -> tuple[npt.NDArray[np.int64], int] | None:
        """The part of the budget that a move of each key group takes, and the budget."""
        if self.moves is not None:
            return np.ones(self.n_key_groups, dtype=np.int64), self.moves
        if self.bytes is not None:
            return self.state_bytes, self.bytes
        return None

    def save(self, path: Path) -> None:
        np.savez(
            path,
            capacity=self.capacity,
            load=self.load,
            state_bytes=self.state_bytes,
            current=self.current,
            budget=json.dumps({"moves": self.moves, "bytes": self.bytes}),
        )

    @classmethod
    def read(cls, path: Path) -> Instance:
        with np.load(path) as arrays:
            budget = json.loads(str(arrays["budget"]))
            return cls(
                arrays["capacity"],
                arrays["load"],
                arrays["state_bytes"],
                arrays["current"],
                budget["moves"],
                budget["bytes"],
            )


@dataclass(frozen=True)
class Answer:
    """The result of one solve; without an assignment the peer found no plan within its time."""

    assignment: npt.NDArray[np.int64] | None
    seconds: float
    note: str = ""
    is_final: bool = False  # more time would not change the answer
    trace: tuple[TracePoint, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        words = {
            "seconds": self.seconds,
            "note": self.note,
            "is_final": self.is_final,
            "trace": self.trace,
            "extra": self.extra,
        }
        found = np.zeros(0, dtype=np.int64) if self.assignment is None else self.assignment
        np.savez(path, assignment=found, found=self.assignment is not None, words=json.dumps(words))

    @classmethod
    def read(cls, path: Path) -> Answer:
        with np.load(path) as arrays:
            words = json.loads(str(arrays["words"]))
            assignment = arrays["assignment"] if bool(arrays["found"]) else None
        words["trace"] = tuple((float(s), float(v)) for s, v in words["trace"])
        return cls(assignment, **words)


Solve = Callable[[float, int], Answer]
"""(seconds, seed) -> answer. ``seconds`` in the answer is overwritten by the measured time."""
Build = Callable[[Instance], Solve]


def answer_path(folder: Path, limit: float) -> Path:
    return folder / f"answer-{limit:g}.npz"


def serve(build: Build, arguments: Sequence[str] | None = None) -> int:
    """Run a peer's main program. A final answer is also used for the longer limits."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("instance", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("limits", type=float, nargs="+")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)
    began = time.monotonic()
    solve = build(Instance.read(args.instance))
    print(f"built in {time.monotonic() - began:.3f} s", flush=True)
    last: Answer | None = None
    for limit in args.limits:
        if last is None or not last.is_final:
            started = time.monotonic()
            last = solve(limit, args.seed)
            last = _timed(last, time.monotonic() - started)
        # Written under another name first, so that a kill leaves no incomplete answer.
        whole = answer_path(args.folder, limit)
        part = whole.with_name("part-" + whole.name)
        last.save(part)
        part.rename(whole)
        print(f"limit {limit:g} s: {last.seconds:.3f} s, {last.note}", flush=True)
    return 0


def _timed(answer: Answer, seconds: float) -> Answer:
    return Answer(
        answer.assignment, seconds, answer.note, answer.is_final, answer.trace, answer.extra
    )
