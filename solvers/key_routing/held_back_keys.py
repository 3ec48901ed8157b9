"""Keys that the gate kept from their partners: what each would save, and what its state costs."""

from __future__ import annotations

import numpy as np

from solvers.key_routing.key_graph import KeyGraph
from solvers.model.amortisation import KEY, AmortisationGate, HeldBack
from solvers.model.problem import IntArray
from solvers.model.traffic_graph import sum_by

LONGEST_SHOWN = 40
"""Signs of a key that are shown: a key may be a thousand bytes long."""


def held_back_keys(
    graph: KeyGraph,
    server: IntArray,
    before: IntArray,
    n_servers: int,
    gate: AmortisationGate,
    ends: tuple[str, str],
) -> tuple[HeldBack, ...]:
    """Keys that a plan leaves where they are, that would save records elsewhere, each by itself
    and all others as planned, and do not pay for it. ``ends``: operators of the two stages."""
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
            gate.in_words(float(gain[v]), float(graph.state[v])),
            KEY,
        )
        for v in stays.tolist()
        if not gate.pays(float(gain[v]), float(graph.state[v]))
    )


def _shown(key: bytes, operator: str) -> str:
    text = repr(key.decode(errors="replace"))
    cut = text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."
    return f"{cut} of {operator}"
