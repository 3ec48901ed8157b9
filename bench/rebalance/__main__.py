"""Compares Ballast with its peers, cell by cell, and prints the table with a verdict per cell.

    python -m bench.rebalance                    ten cells, 1 s, 3 seeds (make bench-rebalance)
    python -m bench.rebalance --full --resume    peers also at 20 s, 5 seeds, large instances
    python -m bench.rebalance --cells 1,4 --peers ours,meta --seeds 1

Exit 0: every verdict holds; 1: one does not; 2: it could not be run.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.common.runner import (
    Benchmark,
    Revision,
    Stopwatch,
    add_out,
    add_seed_base,
    conclude,
    machine,
    write_results,
)
from bench.rebalance import environments, plots, table
from bench.rebalance.cells import BY_NAME, LARGE_CELLS, TEN_CELLS, Cell
from bench.rebalance.measure import (
    NOT_BUILT,
    OURS,
    PEERS,
    Peer,
    PeerOutcome,
    PeerTask,
    measure,
    no_outcome,
)

BENCHMARK = Benchmark("rebalance", "Rebalance compared with its peers", __doc__)
LIMIT_S = 1.0
LONG_LIMIT_S = 20.0
LARGE_LIMIT_S = 15.0
CURVE_LIMITS_S = (0.25, 5.0, LONG_LIMIT_S)
"""Further time limits for Ballast, on the first instance of a cell, for the plots alone."""


@dataclass(frozen=True)
class Comparison:
    """The parameters of a run: the cells, the number of instances of each, and the time limits."""

    cells: tuple[Cell, ...]
    peers: tuple[Peer, ...]
    seeds: int
    revision: Revision
    is_full: bool
    build_s: float

    def limits_of(self, peer: Peer, cell: Cell, index: int) -> tuple[float, ...]:
        if cell in LARGE_CELLS:
            return (LARGE_LIMIT_S,)
        if not self.is_full:
            return (LIMIT_S,)
        if peer.name == OURS:
            return (LIMIT_S, *CURVE_LIMITS_S) if index == 0 else (LIMIT_S,)
        return (LIMIT_S, LONG_LIMIT_S) if peer.is_any_time else (LIMIT_S,)

    def instances_of(self, cell: Cell) -> int:
        return 1 if cell in LARGE_CELLS else self.seeds

    def peers_of(self, cell: Cell) -> list[Peer]:
        return [p for p in self.peers if p.at_any_size or cell not in LARGE_CELLS]


class Journal:
    """Outcomes on disk, one file for each peer and instance, so that an interruption loses one
    run."""

    def __init__(self, folder: Path, *, resume: bool) -> None:
        self.folder = folder
        self.runs = folder / "runs"
        self.runs.mkdir(parents=True, exist_ok=True)
        if not resume:
            for path in self.runs.glob("*.json"):
                path.unlink()

    def _path(self, peer: str, task: PeerTask) -> Path:
        return self.runs / f"{task.cell.replace('%', '')}-{task.index}-{peer}.json"

    def read(self, peer: str, task: PeerTask, limits: Sequence[float]) -> list[PeerOutcome] | None:
        path = self._path(peer, task)
        if not path.exists():
            return None
        rows = [PeerOutcome.from_dict(row) for row in json.loads(path.read_text(encoding="utf-8"))]
        is_same = all(row.seed == task.seed for row in rows)
        return rows if is_same and [row.limit for row in rows] == list(limits) else None

    def write(self, peer: str, task: PeerTask, rows: Sequence[PeerOutcome]) -> None:
        path = self._path(peer, task)
        part = path.with_suffix(".part")
        part.write_text(json.dumps([row.to_dict() for row in rows]), encoding="utf-8")
        part.rename(path)


def run_cell(plan: Comparison, cell: Cell, journal: Journal) -> list[PeerOutcome]:
    outcomes: list[PeerOutcome] = []
    given_up: set[str] = set()
    for index in range(plan.instances_of(cell)):
        instance, seed = cell.draw(plan.revision.seed_base, index)
        task = PeerTask(cell.name, index, seed, instance)
        for peers in _side_by_side(plan.peers_of(cell)):
            rows = _run_peers(plan, cell, peers, task, journal, given_up)
            outcomes += rows
            for row in rows:
                _print_progress(plan, cell, row)
            # The next instance has the same size, and its model takes as long.
            given_up |= {row.peer for row in rows if row.status == NOT_BUILT}
    return outcomes


def _side_by_side(peers: Sequence[Peer]) -> list[list[Peer]]:
    """Run peers that use one core at the same time if there are enough cores, and all others
    alone."""
    single = [peer for peer in peers if peer.cores == 1]
    groups = [[peer] for peer in peers if peer.cores > 1]
    together = max(1, min(2, os.cpu_count() or 1))
    return groups + [single[i : i + together] for i in range(0, len(single), together)]


def _run_peers(
    plan: Comparison,
    cell: Cell,
    peers: Sequence[Peer],
    task: PeerTask,
    journal: Journal,
    given_up: set[str],
) -> list[PeerOutcome]:
    limits = {peer.name: plan.limits_of(peer, cell, task.index) for peer in peers}
    known = {peer.name: journal.read(peer.name, task, limits[peer.name]) for peer in peers}
    rows = [row for found in known.values() if found for row in found]
    missing = [peer for peer in peers if known[peer.name] is None]
    for peer in [p for p in missing if p.name in given_up]:
        rows += [
            no_outcome(peer.name, task, limit, NOT_BUILT, "as for the first instance", math.nan)
            for limit in limits[peer.name]
        ]
    to_run = [peer for peer in missing if peer.name not in given_up]
    if to_run:
        fresh = measure(to_run, task, limits, plan.build_s)
        for peer in to_run:
            journal.write(peer.name, task, [row for row in fresh if row.peer == peer.name])
        rows += fresh
    return rows


def _print_progress(plan: Comparison, cell: Cell, row: PeerOutcome) -> None:
    place = f"cell {cell.name} [{row.index + 1}/{plan.instances_of(cell)}]"
    if row.status == "ok":
        what = f"{row.load_distance:.6g} % with {row.moves} moves in {row.seconds:.2f} s"
    else:
        what = row.status
    note = f" ({' '.join(row.note.split())[-160:]})" if row.note else ""
    print(f"{place} {row.peer} {row.limit:g} s: {what}{note}", flush=True)


def report(plan: Comparison, outcomes: Sequence[PeerOutcome], words: str) -> tuple[str, bool]:
    """The table in Markdown, and whether all verdicts hold."""
    small = [cell for cell in plan.cells if cell not in LARGE_CELLS]
    large = [cell for cell in plan.cells if cell in LARGE_CELLS]
    parts, holds = [words], True
    has_ours = any(peer.name == OURS for peer in plan.peers)
    for cells, limit in ((small, LIMIT_S), (large, LARGE_LIMIT_S)):
        if not cells:
            continue
        by_cell = {c.name: table.figures_of(r for r in outcomes if r.cell == c.name) for c in cells}
        verdicts, titles = [], []
        if has_ours:
            verdicts.append([table.verdict(c, f, limit) for c, f in by_cell.items()])
            titles.append(f"verdict at {limit:g} s")
            holds = holds and all(v.holds for v in verdicts[0])
        if has_ours and plan.is_full and cells is small:
            late = [table.late_verdict(c, f, LIMIT_S, LONG_LIMIT_S) for c, f in by_cell.items()]
            verdicts.append(late)
            titles.append(f"ours at {LIMIT_S:g} s against {LONG_LIMIT_S:g} s")
            holds = holds and table.matched_often_enough(late)
        columns = _columns(plan, cells, outcomes, limit)
        parts.append(table.markdown(cells, outcomes, columns, verdicts, titles))
    return "\n\n".join(parts) + "\n", holds


def _columns(
    plan: Comparison, cells: Sequence[Cell], outcomes: Sequence[PeerOutcome], limit: float
) -> list[tuple[str, float]]:
    names = {cell.name for cell in cells}
    seen = {(row.peer, row.limit) for row in outcomes if row.cell in names}
    order = [limit, LONG_LIMIT_S] if limit != LONG_LIMIT_S else [limit]
    wanted = [(peer.name, at) for peer in plan.peers for at in order]
    return [key for key in wanted if key in seen and not (key[0] == OURS and key[1] != limit)]


def _words(plan: Comparison, command: str, minutes: float) -> str:
    peers = "; ".join(f"{peer.name}: {peer.words}" for peer in plan.peers)
    return (
        f"Made by `{command}` at commit {plan.revision.short_commit}, seed base "
        f"{plan.revision.seed_name}, {plan.seeds} seeds, {machine()}, {minutes:.0f} minutes. "
        f"Load distance in percent of the mean, median over the seeds; lower is better. {peers}."
    )


def _parser() -> argparse.ArgumentParser:
    parser = BENCHMARK.parser()
    add = parser.add_argument
    add("--full", action="store_true", help="peers also at 20 s, 5 seeds, large instances")
    add_seed_base(parser)
    add("--seeds", type=int, help="instances a cell")
    add("--cells", help="some of them, such as 1,4,10")
    add("--peers", help="some of them, such as ours,meta")
    add_out(parser, "results.json, table.md and plot.svg")
    add("--resume", action="store_true", help="keep what an earlier run with these seeds measured")
    BENCHMARK.add_docs(parser)
    return parser


def _named(
    names: str | None, known: dict[str, object], default: Sequence[object]
) -> tuple[object, ...]:
    if names is None:
        return tuple(default)
    unknown = [name for name in names.split(",") if name not in known]
    if unknown:
        raise SystemExit(f"error: {', '.join(unknown)}: not among {', '.join(known)}")
    return tuple(known[name] for name in names.split(","))


def plan_of(args: argparse.Namespace) -> Comparison:
    cells = (*TEN_CELLS, *LARGE_CELLS) if args.full else TEN_CELLS
    return Comparison(
        cells=_named(args.cells, dict(BY_NAME), cells),  # type: ignore[arg-type]
        peers=_named(args.peers, {p.name: p for p in PEERS}, PEERS),  # type: ignore[arg-type]
        seeds=args.seeds or (5 if args.full else 3),
        revision=Revision.of(args.seed_base),
        is_full=args.full,
        build_s=60.0 if args.full else 30.0,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(arguments)
    plan = plan_of(args)
    kind = "full" if plan.is_full else "quick"
    out = args.out or BENCHMARK.results / f"{kind}-{plan.revision.seed_name}"
    try:
        environments.make_all()
    except environments.NoEnvironment as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    watch = Stopwatch()
    journal = Journal(out, resume=args.resume)
    outcomes = [row for cell in plan.cells for row in run_cell(plan, cell, journal)]
    command = "make bench-rebalance-full" if plan.is_full else "make bench-rebalance"
    text, holds = report(plan, outcomes, _words(plan, command, watch.minutes))
    content = {
        "commit": plan.revision.commit,
        "seed_base": plan.revision.seed_name,
        "outcomes": [row.to_dict() for row in outcomes],
    }
    write_results(out, content, text)
    plots.draw(plan.cells, outcomes, out / "plot.svg")
    if args.docs:
        _write_docs(plan, outcomes, text)
    return conclude(text, holds=holds, folder=out)


def _write_docs(plan: Comparison, outcomes: Sequence[PeerOutcome], text: str) -> None:
    plots.draw(plan.cells, outcomes, BENCHMARK.picture)
    BENCHMARK.write_page(f"{text}\n{BENCHMARK.picture_link('Quality over time')}\n")


if __name__ == "__main__":
    sys.exit(main())
