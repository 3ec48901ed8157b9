"""Keys that the gate holds back: what each would save, and what moving its state costs."""

from __future__ import annotations

import numpy as np

from solvers.key_routing.key_graph import KeyGraph
from solvers.model.amortisation import KEY, AmortisationGate, HeldBack
from solvers.model.problem import IntArray
from solvers.model.traffic_graph import sum_by

LONGEST_SHOWN = 40
"""Characters of a key that a message shows; a key can be very long."""


def held_back_keys(
    graph: KeyGraph,
    server: IntArray,
    before: IntArray,
    n_servers: int,
    gate: AmortisationGate,
    ends: tuple[str, str],
) -> tuple[HeldBack, ...]:
    """Return the keys that stay, would save records elsewhere, and do not pay for their state.

    Each key is considered alone, with all others as planned.

    Args:
        graph: Keys, their records and their state.
        server: [vertices] Planned server of each key.
        before: [vertices] Current server of each key.
        n_servers: Number of servers.
        gate: Decides whether a key's gain pays.
        ends: Operators of the two stages, for the messages.
    """
    mine = np.concatenate((graph.edge_left, graph.edge_right))
    other = np.concatenate((graph.edge_right, graph.edge_left))
    weight = np.concatenate((graph.edge_weight, graph.edge_weight))
    shape = (graph.n_vertices, n_servers)
    rates = sum_by(mine * n_servers + server[other], weight, graph.n_vertices * n_servers)
    rates = rates.reshape(shape)
    gain = rates.max(axis=1, initial=0.0) - rates[np.arange(graph.n_vertices), server]
    stays = np.flatnonzero((server == before) & (gain > 0))
    return tuple(
        HeldBack(
            (_shown(graph.keys[v], ends[0] if v < graph.n_left else ends[1]),),
            float(gain[v]),
            round(float(graph.state[v])),
            gate.figures_text(float(gain[v]), float(graph.state[v])),
            KEY,
        )
        for v in stays.tolist()
        if not gate.pays(float(gain[v]), float(graph.state[v]))
    )


def _shown(key: bytes, operator: str) -> str:
    text = repr(key.decode(errors="replace"))
    cut = text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."
    return f"{cut} of {operator}"
