"""Partitions are valid where METIS fails, and METIS prints nothing."""

from __future__ import annotations

import numpy as np
import pytest

from solvers.collocate.partition import partition
from solvers.model.traffic_graph import TrafficGraph


def ring(n: int) -> TrafficGraph:
    ends = np.arange(n)
    return TrafficGraph.from_edges(n, ends, (ends + 1) % n, np.ones(n))


@pytest.mark.parametrize("n_parts", [2, 4, 8, 11])
@pytest.mark.parametrize("giants", [0, 1, 3])
def test_a_vertex_heavier_than_a_part_has_one_of_its_own(
    n_parts: int, giants: int, capfd: pytest.CaptureFixture[str]
) -> None:
    weight = np.ones(24)
    weight[:giants] = 1000.0
    parts = partition(ring(24), weight, n_parts, seed=1)
    assert sorted(np.unique(parts)) == list(range(n_parts))
    sizes = np.bincount(parts, minlength=n_parts)
    if giants < n_parts:
        assert all(sizes[parts[k]] == 1 for k in range(giants))
    said = capfd.readouterr()
    assert (said.out, said.err) == ("", "")


def test_neighbours_stay_together_where_they_can() -> None:
    parts = partition(ring(24), np.ones(24), 4, seed=1)
    cut = int(np.count_nonzero(parts != np.roll(parts, -1)))
    assert cut == 4
