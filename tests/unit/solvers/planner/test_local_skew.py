"""Skew that the load of the whole job hides: one operator, edge, rack or key group."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from solvers.model import metrics
from solvers.model.noise import LoadNoise
from solvers.model.problem import Problem
from solvers.planner.local_skew import (
    Expected,
    SkewRules,
    SkewScope,
    SkewStatus,
    local_skew,
)
from tests.support.skew import JOIN, hidden_skew

RACKS = ("east",) * 3 + ("west",) * 3
RULES = SkewRules()


def skew_of(problem: Problem, rules: SkewRules = RULES, expected: Expected | None = None):
    return local_skew(problem, problem.current, rules, expected)


def status_of(skew, name, scope=SkewScope.NODE):
    return {f.status for f in skew.findings if f.name == name and f.scope is scope}


def with_noise(problem: Problem, relative: float) -> Problem:
    noise = LoadNoise(
        mean_error=relative * problem.load,
        period_sd=relative * problem.load,
        node_variance_ratio=np.ones(1),
        windows=12,
    )
    return replace(problem, noise=noise)


def test_one_operator_on_one_node_of_a_level_job_is_found():
    problem = hidden_skew()
    assert metrics.load_distance(problem, problem.current) == pytest.approx(0.0)
    (found,) = skew_of(problem).skewed
    assert (found.name, found.place, found.share_pct) == ("join", "node-0", 100.0)
    assert found.above_pct == pytest.approx(500.0)
    assert found.least_pct == pytest.approx(50.0)


def test_the_only_operator_of_a_job_is_the_whole_job():
    problem = hidden_skew()
    alone = replace(problem, operator_ids=("one",) * problem.n_key_groups)
    uneven = replace(alone, current=np.zeros_like(problem.current))
    assert skew_of(uneven).findings == ()
    load = np.array(problem.load)
    load[[o != "join" for o in problem.operator_ids]] = 0.001
    assert not [f for f in skew_of(replace(problem, load=load)).findings if f.name == "join"]


def test_operators_that_are_spread_are_level():
    skew = skew_of(hidden_skew(join_on=range(6)))
    assert not skew.skewed
    assert status_of(skew, "join") == {SkewStatus.LEVEL}


@pytest.mark.parametrize("threshold", [449.0, 451.0])
def test_the_threshold_counts_from_what_cannot_be_avoided(threshold):
    skew = skew_of(hidden_skew(), SkewRules(threshold_pct=threshold))
    assert bool(skew.skewed) is (threshold < 450.0)


def test_an_operator_wholly_on_one_of_two_nodes_reaches_the_threshold():
    loads = np.array([0.1, 0.2, 0.3, 0.6])
    problem = Problem(
        node_ids=("a", "b"), resources=("cpu",), capacity=np.ones((2, 1)),
        node_state=("alive",) * 2, key_group_ids=("x/0", "x/1", "x/2", "y/0"),
        operator_ids=("x", "x", "x", "y"), load=loads.reshape(-1, 1),
        state_bytes=np.ones(4, dtype=np.int64), current=np.array([0, 0, 0, 1]),
    )  # fmt: skip
    assert [found.name for found in skew_of(problem).skewed] == ["x"]


def test_an_operator_with_fewer_key_groups_than_nodes_is_not_called_skewed():
    problem = hidden_skew()
    few = tuple("few" if i in (8, 9) else o for i, o in enumerate(problem.operator_ids))
    apart = problem.current.copy()
    apart[8], apart[9] = 1, 2
    skew = skew_of(replace(problem, operator_ids=few, current=apart))
    assert status_of(skew, "few") == {SkewStatus.LEVEL}
    (found,) = (f for f in skew.findings if f.name == "few")
    assert found.above_pct == pytest.approx(found.least_pct) == pytest.approx(200.0)


def test_pinned_key_groups_cannot_be_levelled_and_raise_no_alarm():
    problem = hidden_skew()
    pinned = np.array([o == "join" for o in problem.operator_ids])
    assert not skew_of(replace(problem, pinned=pinned)).skewed


def test_noise_that_is_larger_than_the_skew_is_no_alarm():
    # Two key groups of each node are the operator's; one node has five of them.
    problem = hidden_skew(join_on=(0, 0, 0, 1, 2, 3))
    rules = SkewRules(threshold_pct=50.0)
    assert [f.name for f in skew_of(with_noise(problem, 0.01), rules).skewed] == ["join"]
    noisy = skew_of(with_noise(problem, 1.0), rules)
    assert not noisy.skewed


def test_what_is_wholly_on_one_node_is_found_in_spite_of_noise():
    (found,) = skew_of(with_noise(hidden_skew(), 0.3)).skewed
    assert found.name == "join"
    assert found.noise_pct == pytest.approx(0.0)


def test_a_quiet_operator_raises_no_alarm_and_does_not_count_as_level():
    problem = hidden_skew()
    load = np.array(problem.load)
    load[:JOIN] = 0.001
    skew = skew_of(replace(problem, load=load))
    assert not skew.skewed
    assert status_of(skew, "join") == {SkewStatus.QUIET}
    silent = skew_of(replace(problem, load=np.where(load < 0.01, 0.0, load)))
    assert status_of(silent, "join") == {SkewStatus.QUIET}


def test_a_skew_that_hardly_changes_the_load_of_a_node_is_quiet():
    """All key groups of the operator on one node add 0.55 % to the mean load of a node."""
    problem = hidden_skew()
    load = np.array(problem.load)
    load[:JOIN] = 0.008
    little = replace(problem, load=load)
    skew = skew_of(little, SkewRules(quiet_share=0.0065))
    (found,) = (f for f in skew.findings if f.name == "join")
    assert found.above_pct == pytest.approx(500.0)
    assert found.status is SkewStatus.QUIET
    assert skew_of(little, SkewRules(quiet_share=0.005)).skewed


def test_an_operator_with_a_skew_within_the_noise_is_quiet():
    problem = hidden_skew()
    error = np.zeros_like(problem.load)
    error[:JOIN] = 2.0
    noise = LoadNoise(error, error, np.ones(1), windows=12)
    assert status_of(skew_of(replace(problem, noise=noise)), "join") == {SkewStatus.QUIET}


def test_a_new_operator_is_unknown_and_not_level():
    problem = hidden_skew()
    expected = Expected(("join", "parse", "count", "late"), (), {"join": "seen in 2 windows"})
    skew = skew_of(problem, expected=expected)
    assert not skew.skewed
    assert status_of(skew, "join") == status_of(skew, "late") == {SkewStatus.UNKNOWN}
    assert {f.reason for f in skew.of_status(SkewStatus.UNKNOWN)} == {
        "seen in 2 windows", "the snapshot has no key group of it",
    }  # fmt: skip


# ------------------------------------------------------------------ edges


def with_edge(problem: Problem, pairs, rates) -> Problem:
    source, target = np.array(pairs).T
    return replace(
        problem, traffic_from=source, traffic_to=target, traffic_rate=np.array(rates, dtype=float)
    )


PARSE = [i for i, o in enumerate(hidden_skew().operator_ids) if o == "parse"]
COUNT = [i for i, o in enumerate(hidden_skew().operator_ids) if o == "count"]
SPREAD = range(6)


def test_one_node_that_sends_most_of_an_edge_is_found():
    problem = hidden_skew(join_on=SPREAD)
    on_first = [i for i in PARSE if problem.current[i] == problem.current[PARSE[0]]]
    assert len(on_first) > 2
    rates = [10.0 if i in on_first else 0.01 for i in PARSE]
    skew = skew_of(with_edge(problem, list(zip(PARSE, COUNT, strict=True)), rates))
    found = {(f.kind, f.name) for f in skew.skewed if f.scope is SkewScope.NODE}
    assert ("sent", "parse -> count") in found


def test_one_node_that_receives_most_of_an_edge_is_found():
    problem = hidden_skew(join_on=SPREAD)
    on_one = [i for i in COUNT if problem.current[i] == problem.current[COUNT[0]]]
    pairs = [(PARSE[n], on_one[n % len(on_one)]) for n in range(len(PARSE))]
    skew = skew_of(with_edge(problem, pairs, [5.0] * len(pairs)))
    found = {(f.kind, f.place) for f in skew.skewed if f.scope is SkewScope.NODE}
    assert found == {("received", problem.node_ids[problem.current[COUNT[0]]])}


def test_an_edge_with_hardly_any_records_is_quiet():
    problem = hidden_skew(join_on=SPREAD)
    pairs = [*zip(PARSE, COUNT, strict=True), (PARSE[0], 0)]
    skew = skew_of(with_edge(problem, pairs, [10.0] * len(PARSE) + [0.01]))
    assert status_of(skew, "parse -> join") == {SkewStatus.QUIET}
    assert status_of(skew, "parse -> count") == {SkewStatus.LEVEL}


def test_the_noise_of_rates_counts_for_edges():
    problem = hidden_skew(join_on=SPREAD)
    rates = np.array([10.0 if problem.current[i] == 0 else 1.0 for i in PARSE])
    sending = with_edge(problem, list(zip(PARSE, COUNT, strict=True)), rates)
    assert skew_of(sending).skewed
    quiet = np.zeros_like(problem.load)
    error = np.where(rates > 5, 9.0, 0.0)
    noise = LoadNoise(quiet, quiet, np.ones(1), windows=2, traffic_error=error)
    noisy = skew_of(replace(sending, noise=noise))
    assert not [f for f in noisy.skewed if f.kind == "sent"]


def test_edges_of_the_policy_without_records_are_named():
    problem = with_edge(hidden_skew(), [(PARSE[0], COUNT[0])], [1.0])
    expected = Expected(edges=("parse -> count", "count -> join"))
    assert skew_of(problem, expected=expected).edges_without_records == ("count -> join",)
    nothing_measured = skew_of(hidden_skew(), expected=expected)
    assert nothing_measured.edges_without_records == ()


# ------------------------------------------------------------------ racks


def test_an_operator_on_one_rack_is_found_where_its_nodes_look_level():
    problem = replace(hidden_skew(join_on=SPREAD), rack=RACKS)
    two = tuple("two" if i in (8, 20) else o for i, o in enumerate(problem.operator_ids))
    placed = problem.current.copy()
    placed[8], placed[20] = 0, 1
    skew = skew_of(replace(problem, operator_ids=two, current=placed))
    (found,) = (f for f in skew.skewed if f.name == "two")
    assert (found.scope, found.place, found.share_pct) == (SkewScope.RACK, "east", 100.0)
    assert status_of(skew, "two") == {SkewStatus.LEVEL}


def test_an_operator_on_both_racks_is_level_over_racks():
    problem = hidden_skew(rack=RACKS, join_on=SPREAD)
    assert status_of(skew_of(problem), "join", SkewScope.RACK) == {SkewStatus.LEVEL}


def test_an_edge_whose_records_all_go_between_two_racks_is_found():
    problem = hidden_skew(rack=RACKS, join_on=SPREAD)
    east = [i for i in PARSE if problem.current[i] < 3]
    west = [i for i in COUNT if problem.current[i] >= 3]
    pairs = list(zip(east, west, strict=False))
    skew = skew_of(with_edge(problem, pairs, [4.0] * len(pairs)))
    (found,) = (f for f in skew.skewed if f.scope is SkewScope.RACK_PAIR)
    assert (found.place, found.share_pct) == ("east and west", 100.0)


def test_an_edge_that_stays_within_racks_is_level():
    problem = hidden_skew(rack=RACKS, join_on=SPREAD)
    same = [i for i in COUNT if problem.current[i] == problem.current[PARSE[0]]]
    skew = skew_of(with_edge(problem, [(PARSE[0], same[0])], [4.0]))
    assert status_of(skew, "parse -> count", SkewScope.RACK_PAIR) == {SkewStatus.LEVEL}


# ------------------------------------------------------------------ key groups


def test_a_key_group_that_is_too_heavy_for_any_node_is_named():
    problem = hidden_skew(join_on=SPREAD)
    load = np.array(problem.load)
    load[3], load[4] = 40.0, 30.0
    heavy = skew_of(replace(problem, load=load)).heavy_key_group
    assert heavy is not None
    mean = load.sum() / 6
    assert (heavy.key_group, heavy.others) == (3, 1)
    assert heavy.of_mean_pct == pytest.approx(100 * 40 / mean)


def test_the_largest_node_decides_whether_a_key_group_is_too_heavy():
    problem = hidden_skew(join_on=SPREAD)
    load = np.array(problem.load)
    load[3] = 40.0
    capacity = np.array(problem.capacity)
    capacity[5] *= 10
    assert skew_of(replace(problem, load=load, capacity=capacity)).heavy_key_group is None


def test_a_key_group_that_is_heavy_by_noise_alone_is_not_named():
    problem = hidden_skew(join_on=SPREAD)
    load = np.array(problem.load)
    load[3] = 14.0
    heavy = replace(problem, load=load)
    assert skew_of(heavy).heavy_key_group is not None
    assert skew_of(with_noise(heavy, 0.2)).heavy_key_group is None
