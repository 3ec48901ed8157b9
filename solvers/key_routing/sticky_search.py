"""Sticky search on the key graph: gains in locality weighed against the state that moves.

The two stages are searched in turn. While the other stage is fixed, a key's best server depends on
the other keys of its stage only through the balance bound, so one pass is one table of rates by
key and server. A key moves only if the amortisation gate allows it (solvers/model/amortisation.py).
The search starts twice, from the current servers and from METIS's partition with its parts
renamed, and the better plan wins.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ballast.contracts.errors import InvalidInput
from solvers.key_routing.key_graph import LEFT, RIGHT, KeyGraph
from solvers.key_routing.metis_routes import match_labels, metis_routes
from solvers.key_routing.stage_balance import StageBalance
from solvers.key_routing.sticky_kernels import SMALLEST_GAIN, StageArrays, ease, improve, shed
from solvers.model.amortisation import AmortisationGate
from solvers.model.problem import BoolArray, FloatArray, IntArray
from solvers.model.traffic_graph import sum_by

IMBALANCE = 1.1
"""For each stage separately. METIS's 1.03 in [MW16-LOCALITY] applies to the sum of the two."""
MOST_PASSES = 30
SWAPS_TRIED = 300
MOST_WORK = 20_000_000
"""Moves and swaps that one search examines to relieve servers above the bound."""


@dataclass(frozen=True, slots=True)
class StickyParams:
    """Parameters of the sticky search.

    Attributes:
        imbalance: Most records of a server over the mean, for each stage; at least 1.
        gate: Decides whether a key's gain pays for moving its state.
        try_fresh: Whether the search also starts from a new partition by METIS.
    """

    imbalance: float = IMBALANCE
    gate: AmortisationGate = field(default_factory=lambda: AmortisationGate(records_per_byte=0.0))
    try_fresh: bool = True

    def __post_init__(self) -> None:
        if not (np.isfinite(self.imbalance) and self.imbalance >= 1.0):
            raise InvalidInput(f"imbalance is {self.imbalance!r}", allowed="a number >= 1")


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


@dataclass(frozen=True, eq=False, slots=True)
class StickyPlan:
    """A server for each key, and its figures by the statistics of the graph.

    Attributes:
        server: [vertices] Server of each key.
        moved_state: State of the keys that change servers.
        local_weight: Records between keys on one server.
        start: Which start led to the plan, "current" or "fresh".
        excess: By how much the fullest server is above the bound, as a share of the bound.
    """

    server: IntArray
    moved_state: float
    local_weight: float
    start: str
    excess: float = 0.0


def sticky_routes(
    graph: KeyGraph,
    current: CurrentServers,
    params: StickyParams,
    *,
    seed: int = 0,
    fresh: IntArray | None = None,
    views: FloatArray | None = None,
) -> StickyPlan:
    """Choose a server for each key of the graph.

    A key without state goes to the server of its heaviest partner.

    Args:
        graph: Keys, their records and their state.
        current: Where the keys are routed now.
        params: Balance bound and gate.
        seed: Seed of METIS.
        fresh: [vertices] A plan from scratch to start from; METIS makes one if None.
        views: [vertices, views] Views of the load that keep the bound (stage_balance.py); the
            graph's weights if None.

    Returns:
        The better plan of the two starts.
    """
    n_servers = current.count
    balance = StageBalance.of(graph, n_servers, params.imbalance, views)
    start = place_new_keys(graph, current.server, current.known, balance)
    search = _StickySearch(
        graph, balance, start, np.where(current.known, graph.state, 0.0), params.gate
    )
    plans = [search.plan_from(start, "current")]
    if params.try_fresh and n_servers > 1:
        cut = metis_routes(graph, n_servers, seed=seed) if fresh is None else fresh
        plans.append(search.plan_from(match_labels(graph, cut, start, n_servers), "fresh"))
    # Balance is a bound, so it comes first. Small differences of the excess do not decide.
    return max(plans, key=lambda p: (-round(p.excess, 2), _worth(p, params.gate)))


def fresh_routes(
    graph: KeyGraph, n_servers: int, imbalance: float = IMBALANCE, *, seed: int = 0
) -> IntArray:
    """Return a plan from scratch: METIS's partition, refined to keep the bound of each stage."""
    params = StickyParams(imbalance)
    cut = metis_routes(graph, n_servers, seed=seed)
    balance = StageBalance.of(graph, n_servers, params.imbalance)
    no_state = np.zeros(graph.n_vertices)
    search = _StickySearch(graph, balance, cut, no_state, params.gate)
    return search.plan_from(cut, "fresh").server


def place_new_keys(
    graph: KeyGraph, before: IntArray, known: BoolArray, balance: StageBalance
) -> IntArray:
    """Return the servers, each new key where most of its records go, while there is room."""
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


def _worth(plan: StickyPlan, gate: AmortisationGate) -> float:
    return gate.earned(plan.local_weight) - gate.price(plan.moved_state)


def _best_room(load: FloatArray, rate: FloatArray, hashed: int) -> int:
    """Return the server for a new key; ``load`` [servers, views] includes the key on each."""
    fullest = load.max(axis=1)
    room = fullest <= 1.0
    if not room.any():
        return int(np.argmin(fullest))
    # Without a known partner no server is better than the hashed one, if that has room.
    if rate.max() <= 0 and room[hashed]:
        return hashed
    return int(np.argmax(np.where(room, rate, -1.0)))


def _rates(
    graph: KeyGraph, server: IntArray, side: int, n_servers: int, counted: BoolArray | None = None
) -> FloatArray:
    """Return [keys of the stage, servers]: records shared with partners on each server."""
    mine, other = (
        (graph.edge_left, graph.edge_right) if side == LEFT else (graph.edge_right, graph.edge_left)
    )
    weight = graph.edge_weight if counted is None else graph.edge_weight * counted[other]
    stage = graph.stage(side)
    slot = (mine - stage.start) * n_servers + server[other]
    size = stage.stop - stage.start
    return sum_by(slot, weight, size * n_servers).reshape(size, n_servers)


@dataclass(frozen=True, eq=False, slots=True)
class _StickySearch:
    """Searches from several starts. Worth is in records: what a move earns less its price.

    ``home`` [vertices] is where each key has its state, ``state`` [vertices] how much.
    """

    graph: KeyGraph
    balance: StageBalance
    home: IntArray
    state: FloatArray
    gate: AmortisationGate

    def plan_from(self, start: IntArray, name: str) -> StickyPlan:
        """Search both stages in turn from ``start`` until no key moves."""
        server = start.copy()
        work_left = np.array([MOST_WORK], dtype=np.int64)
        for _ in range(MOST_PASSES):
            changed = [self._search_stage(server, side, work_left) for side in (LEFT, RIGHT)]
            if not any(changed):
                break
        return StickyPlan(
            server,
            moved_state=float(self.state[server != self.home].sum()),
            local_weight=self.graph.local_weight(server),
            start=name,
            excess=self.balance.excess(self.graph, server),
        )

    def _search_stage(self, server: IntArray, side: int, work_left: IntArray) -> bool:
        """Search one stage; ``server`` changes in place. Returns whether a key moved."""
        part = self.graph.stage(side)
        here = server[part]  # a view of the plan
        stage = StageArrays(
            self._values(server, side),
            here,
            np.ascontiguousarray(self.balance.share[part]),
            self.balance.load(here, part),
        )
        changed = _shed_all(stage)
        changed |= bool(ease(stage, work_left))
        return changed | _improve_all(stage)

    def _values(self, server: IntArray, side: int) -> FloatArray:
        """Return [keys, servers]: the worth of having each key on each server."""
        stage = self.graph.stage(side)
        earned = self.gate.trust * self.gate.lifetime
        values = earned * _rates(self.graph, server, side, self.balance.n_servers)
        home, price = self.home[stage], self.gate.records_per_byte * self.state[stage]
        values -= price[:, None]
        values[np.arange(len(home)), home] += price
        return values


def _shed_all(stage: StageArrays) -> bool:
    """Move keys off servers above the bound, the least loss per record first."""
    changed = False
    values = stage.values
    for s in np.flatnonzero(stage.load.max(axis=1) > 1.0).tolist():
        weight = stage.weight[:, int(np.argmax(stage.load[s]))]
        members = np.flatnonzero((stage.here == s) & (weight > 0))
        loss = values[members, s] - np.delete(values[members], s, axis=1).max(
            axis=1, initial=-np.inf
        )
        cheapest = members[np.argsort(loss / weight[members], kind="stable")]
        changed |= bool(shed(stage, s, cheapest))
    return changed


def _improve_all(stage: StageArrays) -> bool:
    """Move keys to better servers, largest gain first."""
    gain = stage.values - stage.values[np.arange(len(stage.here)), stage.here][:, None]
    keys, servers = np.nonzero(gain > SMALLEST_GAIN)
    order = np.argsort(-gain[keys, servers], kind="stable")
    return bool(improve(stage, keys[order], servers[order], SWAPS_TRIED))
