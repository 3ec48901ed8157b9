"""CBP on Linear Road as printed in [AUTODASP17], and against all labellings of small jobs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ballast.contracts.errors import InvalidInput
from solvers.collocate.clusters import connected_sets
from solvers.collocate.operator_components import advise, are_compatible

LINEAR_ROAD = {
    "Forwarder": frozenset({"Ts", "Vid", "XWay", "Dir", "Seg", "Spd", "Pos", "Type"}),
    "AcdDetector": frozenset({"Ts", "Vid"}),
    "AvgSpeed": frozenset({"Vid", "XWay", "Dir", "Seg"}),
    "SegVolume": frozenset({"XWay", "Dir", "Seg"}),
    "TollCalculator": frozenset({"XWay", "Dir", "Seg"}),
}
STREAMS = [
    ("Forwarder", "AcdDetector"),
    ("Forwarder", "AvgSpeed"),
    ("Forwarder", "SegVolume"),
    ("AcdDetector", "TollCalculator"),
    ("AvgSpeed", "TollCalculator"),
    ("SegVolume", "TollCalculator"),
]
EVEN = [(a, b, 1.0) for a, b in STREAMS]


def is_component(
    keys: Mapping[str, frozenset[str]],
    edges: Sequence[tuple[str, str, float]],
    operators: Sequence[str],
) -> bool:
    """Return whether the operators are compatible, and connected by the edges among them."""
    index = {name: i for i, name in enumerate(operators)}
    inside = [(index[a], index[b]) for a, b, _ in edges if a in index and b in index]
    sets = connected_sets(len(operators), [a for a, _ in inside], [b for _, b in inside])
    is_connected = len(operators) == 1 or any(len(s) == len(operators) for s in sets)
    return is_connected and are_compatible(keys, operators)


def test_compatibility_is_not_transitive_on_linear_road() -> None:
    assert are_compatible(LINEAR_ROAD, ["AcdDetector", "AvgSpeed"])
    assert are_compatible(LINEAR_ROAD, ["AvgSpeed", "TollCalculator"])
    assert not are_compatible(LINEAR_ROAD, ["AcdDetector", "TollCalculator"])
    assert not are_compatible(LINEAR_ROAD, ["AcdDetector", "AvgSpeed", "TollCalculator"])


def test_a_component_is_connected_as_well() -> None:
    assert is_component(LINEAR_ROAD, EVEN, ["AvgSpeed", "TollCalculator", "SegVolume"])
    assert not is_component(LINEAR_ROAD, EVEN, ["AvgSpeed", "SegVolume"])
    assert is_component(LINEAR_ROAD, EVEN, ["AcdDetector"])


def test_linear_road_keeps_four_of_six_streams_local() -> None:
    advice = advise(LINEAR_ROAD, EVEN)
    assert advice.is_proven
    assert advice.saved_rate == 4.0
    (component,) = advice.components
    assert set(component.operators) == set(LINEAR_ROAD) - {"AcdDetector"}
    assert component.attributes == ("Dir", "Seg", "XWay")


def test_a_heavy_stream_decides_otherwise() -> None:
    heavy = [(a, b, 10.0 if b == "AcdDetector" else 1.0) for a, b in STREAMS]
    advice = advise(LINEAR_ROAD, heavy)
    together = [set(c.operators) for c in advice.components]
    assert any({"Forwarder", "AcdDetector"} <= operators for operators in together)
    assert advice.saved_rate == 12.0  # those two by Vid, the three others by segment


@st.composite
def jobs(draw: st.DrawFn) -> tuple[dict[str, frozenset[str]], list[tuple[str, str, float]]]:
    names = [f"o{i}" for i in range(draw(st.integers(1, 5)))]
    keys = {o: draw(st.frozensets(st.sampled_from("xyz"), max_size=3)) for o in names}
    edge = st.tuples(st.sampled_from(names), st.sampled_from(names), st.integers(0, 5).map(float))
    return keys, draw(st.lists(edge, max_size=8))


@given(job=jobs())
@settings(max_examples=100, deadline=None, derandomize=True)
def test_no_partition_into_components_saves_more(
    job: tuple[dict[str, frozenset[str]], list[tuple[str, str, float]]],
) -> None:
    keys, edges = job
    advice = advise(keys, edges)
    assert advice.is_proven
    best = 0.0
    for groups in itertools.product(range(len(keys)), repeat=len(keys)):
        parts: dict[int, list[str]] = {}
        for name, group in zip(keys, groups, strict=True):
            parts.setdefault(group, []).append(name)
        sets = [p for p in parts.values() if len(p) > 1]
        if all(is_component(keys, edges, p) for p in sets):
            inside = [set(p) for p in sets]
            best = max(
                best,
                sum(r for a, b, r in edges if a != b and any({a, b} <= p for p in inside)),
            )
    assert advice.saved_rate == pytest.approx(best)
    for component in advice.components:
        assert is_component(keys, edges, component.operators)


def test_a_job_too_large_to_prove_still_gets_components() -> None:
    keys = {f"o{i}": frozenset(f"a{(i + j) % 12}" for j in range(6)) for i in range(60)}
    edges = [(f"o{i}", f"o{(i * 7 + j) % 60}", 1.0 + j) for i in range(60) for j in range(1, 6)]
    advice = advise(keys, edges)
    assert not advice.is_proven
    assert advice.saved_rate > 0.2 * advice.total_rate
    assert all(is_component(keys, edges, c.operators) for c in advice.components)


@pytest.mark.parametrize("edge", [("a", "nobody", 1.0), ("a", "a", float("nan")), ("a", "a", -1.0)])
def test_bad_edges_are_refused(edge: tuple[str, str, float]) -> None:
    with pytest.raises(InvalidInput):
        advise({"a": frozenset("x")}, [edge])
