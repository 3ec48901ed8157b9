"""How close `auto` comes in 1 s to the best plan that any method finds in 60 s, on cells 1 and 2.

    python -m bench.rebalance.one_second [--seeds 10] [--seconds 60] [--before 46914f0]

Beside it in the same run: `auto` at an earlier commit, in 1 s, from an archive of that commit.
Every run is a process of its own, one at a time; every plan is verified, and its load distance
computed again. Ratios are geometric means over the seeds, which come from the commit's hash. A load
distance below 0.0001 % counts as 0.0001 %. Time: seeds x 2 x (methods x seconds + 10 s).
Exit 1: a verdict does not hold.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np

from bench.common.markdown import table
from bench.common.runner import Revision, add_seed_base, conclude, short_parser
from bench.common.verdict import Verdict, judged
from bench.rebalance.cells import BY_NAME, Cell
from bench.rebalance.environments import ROOT
from bench.rebalance.measure import PROGRAMS, Peer, PeerTask, measure

BEFORE = "46914f0"
"""The commit before the search divided visitors anew."""
METHODS = ("auto", "search", "milp")
"""The methods that have the long time; `auto` also runs the other ones."""
CELLS = ("1", "2")
SHORT_S = 1.0
BUILD_S = 120.0
LEAST = 1e-4
"""A smaller load distance, in percent, counts as this one."""
MOST_TIMES_BEST = 1.1
MOST_TIMES_BEFORE = {"2": 0.5}


@dataclass(frozen=True)
class InstanceFigures:
    """Load distances on one instance, in percent."""

    cell: str
    index: int
    now: float
    before: float
    long: tuple[float, ...]
    """By method, in the order of ``METHODS``."""


def ours(method: str, root: Path = ROOT) -> Peer:
    """A method of ours as it is in a checkout."""
    return Peer(method, method, sys.executable, (f"{PROGRAMS}.ours", method), 2, root=root)


def unpack(commit: str, folder: Path) -> None:
    """Write the files of a commit, and compile its loops."""
    command = ["git", "archive", "--format=tar", commit]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    compile_loops(folder)


def compile_loops(root: Path) -> None:
    """Fill the cache of compiled loops, so that no run compiles."""
    command = [sys.executable, "-m", "solvers.rebalance.compile_kernels"]
    subprocess.run(command, cwd=root, check=True, env={**os.environ, "PYTHONPATH": str(root)})


def figure(peer: Peer, task: PeerTask, seconds: float) -> float:
    """The load distance of the verified plan of one run."""
    found = measure([peer], task, {peer.name: [seconds]}, BUILD_S)[0]
    return max(LEAST, found.figure)


def figures_of(
    cell: Cell, index: int, seed_base: int, seconds: float, before: Path
) -> InstanceFigures:
    """Run everything on one instance."""
    instance, seed = cell.draw(seed_base, index)
    task = PeerTask(cell.name, index, seed, instance)
    return InstanceFigures(
        cell.name,
        index,
        figure(ours("auto"), task, SHORT_S),
        figure(ours("auto", before), task, SHORT_S),
        tuple(figure(ours(method), task, seconds) for method in METHODS),
    )


def geometric(values: Sequence[float]) -> float:
    return float(np.exp(np.log(values).mean()))


def verdicts_of(found: Sequence[InstanceFigures], seconds: float) -> list[Verdict]:
    """The two ratios of each cell, as far as they have a limit."""
    verdicts = []
    for cell in dict.fromkeys(one.cell for one in found):
        mine = [one for one in found if one.cell == cell]
        words = BY_NAME[cell].words
        best = geometric([one.now / min(*one.long, one.now) for one in mine])
        claim = f"{words}: in 1 s, times the best in {seconds:g} s"
        verdicts.append(Verdict(claim, best, MOST_TIMES_BEST, at_least=False))
        if cell in MOST_TIMES_BEFORE:
            ratio = geometric([one.now / one.before for one in mine])
            claim = f"{words}: in 1 s, times the earlier commit in 1 s"
            verdicts.append(Verdict(claim, ratio, MOST_TIMES_BEFORE[cell], at_least=False))
    return verdicts


def figures_table(found: Sequence[InstanceFigures], seconds: float) -> str:
    heads = ["cell", "seed", "1 s", "earlier commit, 1 s", *(f"{m} {seconds:g} s" for m in METHODS)]
    rows = [
        [
            one.cell,
            str(one.index + 1),
            *(f"{value:.4g}" for value in (one.now, one.before, *one.long)),
        ]
        for one in found
    ]
    return table(heads, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = short_parser(__doc__)
    add_seed_base(parser)
    parser.add_argument("--seeds", type=int, default=10, help="instances a cell")
    parser.add_argument("--seconds", type=float, default=60.0, help="the long time")
    parser.add_argument("--before", default=BEFORE, help="the earlier commit")
    args = parser.parse_args(arguments)
    revision = Revision.of(args.seed_base)
    found: list[InstanceFigures] = []
    with tempfile.TemporaryDirectory(prefix="ballast-before-") as folder:
        unpack(args.before, Path(folder))
        compile_loops(ROOT)
        for index in range(args.seeds):
            for name in CELLS:
                cell = BY_NAME[name]
                found.append(
                    figures_of(cell, index, revision.seed_base, args.seconds, Path(folder))
                )
                print(figures_table(found[-1:], args.seconds).splitlines()[-1], flush=True)
    found.sort(key=lambda one: (one.cell, one.index))
    verdicts = verdicts_of(found, args.seconds)
    text = (
        f"Commit {revision.short_commit}, seed base {revision.seed_name}, compared with "
        f"{args.before}; load distance in percent of the mean.\n\n"
        f"{figures_table(found, args.seconds)}\n\n{judged(verdicts)}"
    )
    return conclude(text, holds=all(v.holds for v in verdicts))


if __name__ == "__main__":
    sys.exit(main())
