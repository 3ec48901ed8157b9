"""Which hot keys are split, over how many key groups; the verifier finds the same effect."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from ballast.contracts.identity import hashed_key_group
from solvers.key_routing.key_splits import SplitOptions, decide_splits, split_bound
from solvers.key_routing.split_effect import SplitKeys, changed_keys, problem_after_splits
from solvers.model import metrics
from solvers.model.key_statistics import KeyStatistics
from solvers.model.problem import Problem
from solvers.verify.splits import SplitFacts, SplitRules, parts_by_key, split_violations

GROUPS, NODES = 6, 3
OPTIONS = SplitOptions(
    operators=("count",), last_operators=("count",), allowed_pct=2.0, looks_for_hot_keys=True
)


def problem_of(group_rates, capacity=None, traffic=False, states=None, parse=2):
    """``count`` has a load of a hundredth core a record; ``parse`` sends it the records."""
    groups = len(group_rates)
    names = [*(f"count/{g}" for g in range(groups)), *(f"parse/{g}" for g in range(parse))]
    nodes = len(capacity) if capacity is not None else NODES
    edges = list(product(range(groups, groups + parse), range(groups)))
    return Problem(
        node_ids=tuple(f"n{i}" for i in range(nodes)),
        resources=("cpu",),
        capacity=np.ones((nodes, 1)) if capacity is None else np.array(capacity)[:, None],
        node_state=states or ("alive",) * nodes,
        key_group_ids=tuple(names),
        operator_ids=tuple(name.split("/")[0] for name in names),
        load=np.array([*(rate / 100 for rate in group_rates), *[0.01] * parse])[:, None],
        state_bytes=np.full(len(names), 100),
        current=np.arange(len(names)) % nodes,
        traffic_from=np.array([a for a, _ in edges]) if traffic else None,
        traffic_to=np.array([b for _, b in edges]) if traffic else None,
        traffic_rate=np.array([group_rates[b] / parse for _, b in edges]) if traffic else None,
    )


def measured(keys, splits=None, **options):
    """Keys with their rates, in their parts."""
    splits = splits or {}
    rates = [0.0] * GROUPS
    for key, rate in keys.items():
        parts = splits.get(key) or (hashed_key_group(key, GROUPS),)
        for group in parts:
            rates[group] += rate / len(parts)
    statistics = KeyStatistics(
        keys={"count": dict(keys)},
        group_rate={f"count/{group}": rate for group, rate in enumerate(rates)},
    )
    in_force = {"count": splits} if splits else {}
    return SplitKeys(problem_of(rates, **options), statistics, {}, in_force)


def keys_with(hot, others=60, total=600.0):
    rest = {f"k{number}": (total - hot) / others for number in range(others)}
    return {"hot": hot, **rest}


def parts_in(decision, key="hot"):
    return decision.splits.get("count", {}).get(key)


@pytest.mark.parametrize(("hot", "parts"), [(190.0, None), (260.0, 2), (300.0, 2), (400.0, 3)])
def test_a_key_gets_as_few_parts_as_suffice(hot, parts):
    found = parts_in(decide_splits(measured(keys_with(hot)), OPTIONS))
    assert (None if found is None else len(found)) == parts
    if found is not None:
        assert hashed_key_group("hot", GROUPS) in found
        assert len(set(found)) == len(found)


def test_parts_are_on_different_nodes_that_stay():
    given = measured(keys_with(420.0), capacity=[1, 1, 1], states=("alive", "alive", "draining"))
    parts = parts_in(decide_splits(given, OPTIONS))
    home = hashed_key_group("hot", GROUPS)
    states = [given.problem.node_state[given.problem.current[g]] for g in parts if g != home]
    assert set(states) == {"alive"}


def test_the_bound_is_below_every_placement_that_keeps_the_key_together():
    given = measured(keys_with(450.0), capacity=[1.0, 2.0, 1.0])
    bound = split_bound(given, {"count": {"hot": (0, 1)}})
    assert bound > 0
    best = min(
        metrics.load_distance(given.problem, np.array(assignment))
        for assignment in product(range(NODES), repeat=given.problem.n_key_groups)
    )
    assert bound <= best + 1e-9
    after = problem_after_splits(given, decide_splits(given, OPTIONS).splits)
    with_split = min(
        metrics.load_distance(after, np.array(assignment))
        for assignment in product(range(NODES), repeat=after.n_key_groups)
    )
    assert with_split < bound


def test_a_key_that_is_split_stays_so_until_it_is_below_the_share_of_a_join():
    for hot, expected in ((300.0, (0, 1, 2)), (120.0, (0, 1, 2)), (90.0, None)):
        parts = {"hot": tuple(sorted({0, 1, 2, hashed_key_group("hot", GROUPS)})[:4])}
        decision = decide_splits(measured(keys_with(hot), parts), OPTIONS)
        assert (parts_in(decision) is None) == (expected is None), hot
        assert any("'hot'" in reason for reason in decision.reasons)


def test_a_key_whose_parts_are_too_large_gets_more():
    home = hashed_key_group("hot", GROUPS)
    parts = {"hot": tuple(sorted({home, (home + 1) % GROUPS}))}
    assert len(parts_in(decide_splits(measured(keys_with(500.0), parts), OPTIONS))) > 2


def test_an_operator_whose_keys_were_not_counted_keeps_its_splits():
    given = measured(keys_with(10.0), {"hot": (0, 1, 2)})
    unknown = SplitKeys(given.problem, KeyStatistics(), {}, given.splits)
    decision = decide_splits(unknown, OPTIONS)
    assert decision.splits == given.splits
    assert "no key was counted" in decision.reasons[0]


def test_a_policy_that_no_longer_splits_the_operator_joins_its_keys():
    given = measured(keys_with(400.0), {"hot": (0, 1, 2)})
    decision = decide_splits(given, SplitOptions())
    assert decision.splits == {}
    assert "the policy no longer splits its keys" in decision.reasons[0]


def test_at_most_the_allowed_number_of_keys_is_split_and_the_rest_is_named():
    keys = {"hot": 250.0, "second": 245.0, "k": 5.0}
    options = SplitOptions(("count",), ("count",), max_keys=1, looks_for_hot_keys=True)
    decision = decide_splits(measured(keys), options)
    assert list(decision.splits["count"]) == ["hot"]
    assert any("'second'" in text and "max_keys is 1" in text for text in decision.reasons)


def test_a_hot_key_of_an_operator_that_sends_records_on_is_named_with_the_reason():
    options = SplitOptions(looks_for_hot_keys=True)
    decision = decide_splits(measured(keys_with(400.0)), options)
    assert decision.splits == {}
    assert "sends records on, so the key cannot be split" in decision.reasons[0]


def test_an_operator_with_one_key_group_cannot_be_split():
    statistics = KeyStatistics(keys={"count": {"hot": 90.0}}, group_rate={"count/0": 100.0})
    given = SplitKeys(problem_of([100.0]), statistics, {}, {})
    decision = decide_splits(given, OPTIONS)
    assert decision.splits.get("count", {}) == {}
    assert "too few key groups" in decision.reasons[0]


def random_splits(rng):
    keys = rng.choice(["hot", "k1", "k2", "k3"], size=rng.integers(0, 4), replace=False)
    found = {}
    for key in keys:
        others = rng.choice(GROUPS, size=rng.integers(1, 5), replace=False)
        found[str(key)] = tuple(sorted({*map(int, others), hashed_key_group(str(key), GROUPS)}))
    return {key: groups for key, groups in found.items() if len(groups) > 1}


@pytest.mark.parametrize("seed", range(20))
def test_the_verifier_finds_the_same_loads_traffic_and_bound(seed):
    rng = np.random.default_rng(seed)
    before, after = random_splits(rng), random_splits(rng)
    given = measured(keys_with(float(rng.uniform(5, 500))), before, traffic=bool(seed % 2))
    wanted = {"count": after} if after else {}
    ours = problem_after_splits(given, wanted)
    rows = [[("count", k, g) for k, groups in s.items() for g in groups] for s in (before, after)]
    facts = SplitFacts(
        given.problem, given.statistics, {}, (parts_by_key(rows[0]), parts_by_key(rows[1]))
    )
    theirs = facts.problem_after()
    assert np.allclose(ours.load, theirs.load)
    assert ours.load.sum() == pytest.approx(given.problem.load.sum())
    assert facts.is_change == bool(changed_keys(given.splits, wanted))
    assert facts.figures["unsplit_bound_pct"] == pytest.approx(split_bound(given, wanted))
    if given.problem.traffic_rate is not None:
        assert metrics.collocation_factor(ours, ours.current) == pytest.approx(
            metrics.collocation_factor(theirs, theirs.current)
        )
        assert theirs.traffic_rate.sum() == pytest.approx(given.problem.traffic_rate.sum())
    rules = SplitRules({"count": GROUPS, "parse": 2}, ("count",), 8, 8)
    assert list(split_violations(rules, {}, parts_by_key(rows[0]), rows[1])) == []


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("count", "hot", 0), ("count", "hot", 99)], "of 6 key groups"),
        ([("count", "hot", hashed_key_group("hot", GROUPS))], "its own key group is"),
        ([("parse", "hot", 0), ("parse", "hot", 1)], "the policy does not split its keys"),
        ([("count", "hot", group) for group in range(6)], "has 6 parts, allowed 4"),
        ([("count", k, g) for k in ("a", "b", "c") for g in range(4)], "3 keys are split"),
        ([("count", "hot", 0)] * 2, "has key group 0 twice"),
    ],
)
def test_splits_that_break_a_rule_are_found(rows, message):
    rules = SplitRules({"count": GROUPS, "parse": 2}, ("count",), max_parts=4, max_keys=2)
    found = [violation.message for violation in split_violations(rules, {}, {}, rows)]
    assert any(message in text for text in found), found


def test_a_new_part_on_a_draining_node_is_found():
    given = measured(keys_with(300.0), states=("alive", "alive", "draining"), capacity=[1, 1, 1])
    home = hashed_key_group("hot", GROUPS)
    rows = [("count", "hot", group) for group in range(GROUPS)]
    facts = SplitFacts(given.problem, given.statistics, {}, ({}, parts_by_key(rows)))
    nodes = ["n2"] * given.problem.n_key_groups
    nodes[home] = "n0"
    assert len(list(facts.violations(nodes))) == GROUPS - 1
    assert list(facts.violations(["n0"] * given.problem.n_key_groups)) == []
