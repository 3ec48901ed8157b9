"""Sticky search on the key graph: locality and state moved, weighed against each other.

The two stages are searched in turn. With the other stage held, a key's best server depends on no
other key of its stage but through the balance bound, so a pass is one table of rates by key and
server. A key moves only if the amortisation gate lets it (gate.py). Two starts, where the keys
are and METIS's answer with its parts renamed; the better plan wins.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ballast.contracts.errors import InvalidInput
from solvers.collocate.gate import Gate
from solvers.collocate.graph import sum_by
from solvers.collocate.keys.kernels import SMALLEST_GAIN, improve, put
from solvers.collocate.keys.key_graph import LEFT, RIGHT, KeyGraph
from solvers.collocate.keys.routes import match_labels, metis_routes
from solvers.problem import BoolArray, FloatArray, IntArray

IMBALANCE = 1.1
"""Of each stage by itself. METIS's 1.03 in seed 004 is on the sum of the two."""
MOST_PASSES = 30
SWAPS_TRIED = 300


@dataclass(frozen=True, slots=True)
class StickyParams:
    """``imbalance``: most records of a server over the mean, for each stage by itself."""

    imbalance: float = IMBALANCE
    gate: Gate = field(default_factory=lambda: Gate(records_per_byte=0.0))
    try_fresh: bool = True

    def __post_init__(self) -> None:
        if not (np.isfinite(self.imbalance) and self.imbalance >= 1.0):
            raise InvalidInput(f"imbalance is {self.imbalance!r}", allowed="a number >= 1")


@dataclass(frozen=True, eq=False, slots=True)
class StickyPlan:
    """``server`` per vertex; state moved and records kept local, on the statistics given."""

    server: IntArray
    moved_state: float
    local_weight: float
    start: str


def sticky_routes(
    graph: KeyGraph,
    before: IntArray,
    known: BoolArray,
    n_servers: int,
    params: StickyParams,
    *,
    seed: int = 0,
    fresh: IntArray | None = None,
) -> StickyPlan:
    """``before`` is where each key is routed now; keys that are not ``known`` have no state yet
    and go where their heaviest partner is. ``fresh`` is a plan from nothing, if there is one
    already; unless given, METIS makes one."""
    start = place_new_keys(graph, before, known, n_servers, params.imbalance)
    state = np.where(known, graph.state, 0.0)
    plans = [_refined(graph, start, start, state, n_servers, params, "kept")]
    if params.try_fresh and n_servers > 1:
        cut = metis_routes(graph, n_servers, seed=seed) if fresh is None else fresh
        renamed = match_labels(graph, cut, start, n_servers)
        plans.append(_refined(graph, renamed, start, state, n_servers, params, "fresh"))
    return max(plans, key=lambda p: _worth(p, params.gate))


def fresh_routes(
    graph: KeyGraph, n_servers: int, imbalance: float = IMBALANCE, *, seed: int = 0
) -> IntArray:
    """A plan from nothing: METIS's, refined with a balance bound for each stage."""
    cut = metis_routes(graph, n_servers, seed=seed)
    no_state = np.zeros(graph.n_vertices)
    params = StickyParams(imbalance)
    return _refined(graph, cut, cut, no_state, n_servers, params, "fresh").server


def _worth(plan: StickyPlan, gate: Gate) -> float:
    return gate.earned(plan.local_weight) - gate.price(plan.moved_state)


def _refined(
    graph: KeyGraph,
    start: IntArray,
    home: IntArray,
    state: FloatArray,
    n_servers: int,
    params: StickyParams,
    name: str,
) -> StickyPlan:
    search = _Sticky(graph, start, home, state, n_servers, params)
    search.run()
    moved = float(state[search.server != home].sum())
    return StickyPlan(search.server, moved, graph.local_weight(search.server), name)


def place_new_keys(
    graph: KeyGraph, before: IntArray, known: BoolArray, n_servers: int, imbalance: float
) -> IntArray:
    """A new key goes where most of its records come from or go to, while there is room."""
    server = before.copy()
    rates = [_rates(graph, server, side, n_servers, known) for side in (LEFT, RIGHT)]
    has_partner = [rate.max(axis=1, initial=0.0) > 0 for rate in rates]
    for side in (LEFT, RIGHT):
        stage = graph.stage(side)
        weight, here = graph.weight[stage], server[stage]
        fresh = np.flatnonzero(~known[stage])
        load = np.bincount(here[known[stage]], weights=weight[known[stage]], minlength=n_servers)
        cap = _cap(weight, n_servers, imbalance)
        for v in fresh[np.argsort(-weight[fresh], kind="stable")].tolist():
            chosen = int(here[v])
            # Without a known partner the hash is as good as any server, where it has room.
            if has_partner[side][v] or load[chosen] + weight[v] > cap:
                room = load + weight[v] <= cap
                rated = np.where(room, rates[side][v], -1.0)
                chosen = int(np.argmax(rated)) if room.any() else int(np.argmin(load))
            here[v] = chosen
            load[chosen] += weight[v]
    return server


def _cap(weight: FloatArray, n_servers: int, imbalance: float) -> float:
    """A key heavier than its fair share cannot be split: it may fill a server by itself."""
    mean = float(weight.sum()) / n_servers
    return max(imbalance * mean, float(weight.max(initial=0.0))) * (1 + 1e-12)


def _rates(
    graph: KeyGraph, server: IntArray, side: int, n_servers: int, counted: BoolArray | None = None
) -> FloatArray:
    """[keys of the stage, servers]: records shared with partners on each server."""
    mine, other = (
        (graph.edge_left, graph.edge_right) if side == LEFT else (graph.edge_right, graph.edge_left)
    )
    weight = graph.edge_weight if counted is None else graph.edge_weight * counted[other]
    stage = graph.stage(side)
    slot = (mine - stage.start) * n_servers + server[other]
    size = stage.stop - stage.start
    return sum_by(slot, weight, size * n_servers).reshape(size, n_servers)


class _Sticky:
    """Everything in records: what a move earns over its life, less what its state costs."""

    def __init__(
        self,
        graph: KeyGraph,
        start: IntArray,
        home: IntArray,
        state: FloatArray,
        n_servers: int,
        params: StickyParams,
    ) -> None:
        self.graph, self.n_servers = graph, n_servers
        self.server, self.home = start.copy(), home
        self.gate = params.gate
        self.price = params.gate.records_per_byte * state
        self.caps = [
            _cap(graph.weight[graph.stage(side)], n_servers, params.imbalance)
            for side in (LEFT, RIGHT)
        ]

    def run(self) -> None:
        for _ in range(MOST_PASSES):
            changed = [self._stage(side) for side in (LEFT, RIGHT)]
            if not any(changed):
                return

    def _values(self, side: int) -> FloatArray:
        """[keys, servers]: worth of having each key on each server."""
        stage = self.graph.stage(side)
        earned = self.gate.trust * self.gate.life
        values = earned * _rates(self.graph, self.server, side, self.n_servers)
        home = self.home[stage]
        values -= self.price[stage][:, None]
        values[np.arange(len(home)), home] += self.price[stage]
        return values

    def _stage(self, side: int) -> bool:
        stage = self.graph.stage(side)
        values, here = self._values(side), self.server[stage]
        weight = self.graph.weight[stage]
        load = sum_by(here, weight, self.n_servers)
        evicted = self._shed(values, here, weight, load, self.caps[side])
        moved = self._improve(values, here, weight, load, self.caps[side])
        return evicted or moved

    def _shed(
        self, values: FloatArray, here: IntArray, weight: FloatArray, load: FloatArray, cap: float
    ) -> bool:
        """Servers over the bound give away what costs the least per record, to where room is."""
        changed = False
        for s in np.flatnonzero(load > cap).tolist():
            members = np.flatnonzero((here == s) & (weight > 0))
            loss = values[members, s] - np.delete(values[members], s, axis=1).max(
                axis=1, initial=-np.inf
            )
            for v in members[np.argsort(loss / weight[members], kind="stable")].tolist():
                if load[s] <= cap:
                    break
                room = load + weight[v] <= cap
                room[s] = False
                if room.any():
                    there = int(np.argmax(np.where(room, values[v], -np.inf)))
                    put(v, there, here, weight, load)
                    changed = True
        return changed

    def _improve(
        self, values: FloatArray, here: IntArray, weight: FloatArray, load: FloatArray, cap: float
    ) -> bool:
        """Largest gain first. ``here`` is a view of ``server``: the plan changes with it."""
        gain = values - values[np.arange(len(here)), here][:, None]
        keys, servers = np.nonzero(gain > SMALLEST_GAIN)
        order = np.argsort(-gain[keys, servers], kind="stable")
        return bool(
            improve(values, here, weight, load, cap, keys[order], servers[order], SWAPS_TRIED)
        )
