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
from solvers.key_routing.key_graph import LEFT, RIGHT, KeyGraph
from solvers.key_routing.metis_routes import match_labels, metis_routes
from solvers.key_routing.stage_balance import StageBalance
from solvers.key_routing.sticky_kernels import SMALLEST_GAIN, ease, improve, shed
from solvers.model.amortisation import AmortisationGate
from solvers.model.problem import BoolArray, FloatArray, IntArray
from solvers.model.traffic_graph import sum_by

IMBALANCE = 1.1
"""Of each stage by itself. METIS's 1.03 in [MW16-LOCALITY] is on the sum of the two."""
MOST_PASSES = 30
SWAPS_TRIED = 300
MOST_WORK = 20_000_000
"""Moves and swaps looked at, a search, to ease servers above the bound that none has room for."""


@dataclass(frozen=True, slots=True)
class StickyParams:
    """``imbalance``: most records of a server over the mean, for each stage by itself."""

    imbalance: float = IMBALANCE
    gate: AmortisationGate = field(default_factory=lambda: AmortisationGate(records_per_byte=0.0))
    try_fresh: bool = True

    def __post_init__(self) -> None:
        if not (np.isfinite(self.imbalance) and self.imbalance >= 1.0):
            raise InvalidInput(f"imbalance is {self.imbalance!r}", allowed="a number >= 1")


@dataclass(frozen=True, eq=False, slots=True)
class StickyPlan:
    """``server`` per vertex; state moved and records kept local, on the statistics given.

    ``excess`` is by how much the fullest server is above what the bound allows, as a share of it.
    """

    server: IntArray
    moved_state: float
    local_weight: float
    start: str
    excess: float = 0.0


@dataclass(frozen=True, eq=False, slots=True)
class CurrentServers:
    """Where the keys of a graph are routed before the search.

    Attributes:
        server: [vertices] Server of each key.
        known: [vertices] Whether the key has state there; a new key has none.
        count: Number of servers.
    """

    server: IntArray
    known: BoolArray
    count: int

    @classmethod
    def all_known(cls, server: IntArray, count: int) -> CurrentServers:
        """Return these servers where every key has its state."""
        return cls(server, np.ones(len(server), dtype=bool), count)


def sticky_routes(
    graph: KeyGraph,
    current: CurrentServers,
    params: StickyParams,
    *,
    seed: int = 0,
    fresh: IntArray | None = None,
    views: FloatArray | None = None,
) -> StickyPlan:
    """``before`` is where each key is routed now; keys that are not ``known`` have no state yet
    and go where their heaviest partner is. ``fresh`` is a plan from nothing, if there is one
    already; unless given, METIS makes one. The balance bound holds in each of the ``views`` of
    the load (balance.py), which are the graph's weights alone unless given."""
    n_servers = current.count
    balance = StageBalance.of(graph, n_servers, params.imbalance, views)
    start = place_new_keys(graph, current.server, current.known, balance)
    state = np.where(current.known, graph.state, 0.0)
    plans = [_refined(graph, balance, start, start, state, params, "kept")]
    if params.try_fresh and n_servers > 1:
        cut = metis_routes(graph, n_servers, seed=seed) if fresh is None else fresh
        renamed = match_labels(graph, cut, start, n_servers)
        plans.append(_refined(graph, balance, renamed, start, state, params, "fresh"))
    # StageBalance is a bound, so it comes first; what both plans exceed it by is compared coarsely.
    return max(plans, key=lambda p: (-round(p.excess, 2), _worth(p, params.gate)))


def fresh_routes(
    graph: KeyGraph, n_servers: int, imbalance: float = IMBALANCE, *, seed: int = 0
) -> IntArray:
    """A plan from nothing: METIS's, refined with a balance bound for each stage."""
    cut = metis_routes(graph, n_servers, seed=seed)
    no_state = np.zeros(graph.n_vertices)
    balance = StageBalance.of(graph, n_servers, imbalance)
    return _refined(graph, balance, cut, cut, no_state, StickyParams(imbalance), "fresh").server


def _worth(plan: StickyPlan, gate: AmortisationGate) -> float:
    return gate.earned(plan.local_weight) - gate.price(plan.moved_state)


def _refined(
    graph: KeyGraph,
    balance: StageBalance,
    start: IntArray,
    home: IntArray,
    state: FloatArray,
    params: StickyParams,
    name: str,
) -> StickyPlan:
    search = _Sticky(graph, balance, start, home, state, params)
    search.run()
    server = search.server
    moved = float(state[server != home].sum())
    return StickyPlan(
        server, moved, graph.local_weight(server), name, balance.excess(graph, server)
    )


def place_new_keys(
    graph: KeyGraph, before: IntArray, known: BoolArray, balance: StageBalance
) -> IntArray:
    """A new key goes where most of its records come from or go to, while there is room."""
    server, n_servers = before.copy(), balance.n_servers
    rates = [_rates(graph, server, side, n_servers, known) for side in (LEFT, RIGHT)]
    for side in (LEFT, RIGHT):
        stage = graph.stage(side)
        share, here, rate = balance.share[stage], server[stage], rates[side]
        settled, fresh = np.flatnonzero(known[stage]), np.flatnonzero(~known[stage])
        load = balance.load(here[settled], settled + stage.start)
        heaviest_first = fresh[np.argsort(-graph.weight[stage][fresh], kind="stable")]
        for v in heaviest_first.tolist():
            here[v] = _best_room(load + share[v], rate[v], int(here[v]))
            load[here[v]] += share[v]
    return server


def _best_room(load: FloatArray, rate: FloatArray, hashed: int) -> int:
    """The server for a new key, by the loads [servers, views] that each would have with it."""
    fullest = load.max(axis=1)
    room = fullest <= 1.0
    if not room.any():
        return int(np.argmin(fullest))
    # Without a known partner the hash is as good as any server, where it has room.
    if rate.max() <= 0 and room[hashed]:
        return hashed
    return int(np.argmax(np.where(room, rate, -1.0)))


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
        balance: StageBalance,
        start: IntArray,
        home: IntArray,
        state: FloatArray,
        params: StickyParams,
    ) -> None:
        self.graph, self.balance = graph, balance
        self.server, self.home = start.copy(), home
        self.gate = params.gate
        self.price = params.gate.records_per_byte * state
        self.work_left = np.array([MOST_WORK], dtype=np.int64)

    def run(self) -> None:
        for _ in range(MOST_PASSES):
            changed = [self._stage(side) for side in (LEFT, RIGHT)]
            if not any(changed):
                return

    def _values(self, side: int) -> FloatArray:
        """[keys, servers]: worth of having each key on each server."""
        stage = self.graph.stage(side)
        earned = self.gate.trust * self.gate.life
        values = earned * _rates(self.graph, self.server, side, self.balance.n_servers)
        home = self.home[stage]
        values -= self.price[stage][:, None]
        values[np.arange(len(home)), home] += self.price[stage]
        return values

    def _stage(self, side: int) -> bool:
        """``here`` is a view of ``server``: the plan changes with it."""
        stage = self.graph.stage(side)
        values, here = self._values(side), self.server[stage]
        share = np.ascontiguousarray(self.balance.share[stage])
        load = self.balance.load(here, stage)
        changed = self._shed(values, here, share, load)
        changed |= bool(ease(values, here, share, load, self.work_left))
        return changed | self._improve(values, here, share, load)

    def _shed(
        self, values: FloatArray, here: IntArray, share: FloatArray, load: FloatArray
    ) -> bool:
        """Servers over the bound give away what costs the least per record, to where room is."""
        changed = False
        for s in np.flatnonzero(load.max(axis=1) > 1.0).tolist():
            of_key = share[:, int(np.argmax(load[s]))]
            members = np.flatnonzero((here == s) & (of_key > 0))
            loss = values[members, s] - np.delete(values[members], s, axis=1).max(
                axis=1, initial=-np.inf
            )
            cheapest = members[np.argsort(loss / of_key[members], kind="stable")]
            changed |= bool(shed(s, cheapest, values, here, share, load))
        return changed

    def _improve(
        self, values: FloatArray, here: IntArray, share: FloatArray, load: FloatArray
    ) -> bool:
        """Largest gain first."""
        gain = values - values[np.arange(len(here)), here][:, None]
        keys, servers = np.nonzero(gain > SMALLEST_GAIN)
        order = np.argsort(-gain[keys, servers], kind="stable")
        ordered = keys[order], servers[order]
        return bool(improve(values, here, share, load, *ordered, SWAPS_TRIED))
