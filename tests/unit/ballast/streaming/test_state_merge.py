"""A merge function is refused at the start if it, or the order of merging, changes results."""

from __future__ import annotations

import pytest

from ballast.contracts.errors import InvalidInput
from ballast.contracts.policy import parse_policy
from ballast.streaming import Operator
from ballast.streaming.operators import build_topology
from ballast.streaming.state_merge import StateMerge, check_merge, merged
from tests.support.streaming_parts import JOB, OPERATORS_BY_KEY, policy_data

AMOUNTS = [5, 7, 11, 2]


def add(state, key, amount):
    state[key] = state.get(key, 0) + amount


def operator(process=add, function=lambda a, b: a + b, sample=AMOUNTS, **changes):
    changes = {"state_by_key": True, "merge": StateMerge(function, sample), **changes}
    return Operator("add", process, **changes)


def total_and_mean(state, key, amount):
    count, mean = state.get(key, [0, 0.0])
    state[key] = [count + 1, (count * mean + amount) / (count + 1)]


def largest_two(state, key, amount):
    state[key] = sorted([*state.get(key, []), amount], reverse=True)[:2]


@pytest.mark.parametrize(
    "correct",
    [
        operator(),
        operator(largest_two, lambda a, b: sorted(a + b, reverse=True)[:2]),
        operator(function=lambda a, b: a.__add__(b), sample=[1, 2, 3]),
    ],
)
def test_a_function_that_depends_on_no_order_passes(correct):
    check_merge(correct)


def test_an_operator_without_a_merge_function_needs_no_check():
    check_merge(Operator("add", add))


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (lambda a, b: a - b, "not associative"),
        (lambda a, b: (a + b) / 2, "not associative"),
        (lambda a, b: a, "not commutative"),
        (max, "not a merge of parts"),
    ],
)
def test_a_function_that_does_not_merge_is_refused_with_states_that_show_it(function, what):
    with pytest.raises(InvalidInput, match=what) as refused:
        check_merge(operator(function=function))
    assert "operator add" in str(refused.value)
    assert "a = 5, b = 7" in str(refused.value) or "a = 16" in str(refused.value)


def test_floating_point_sums_are_refused_because_they_depend_on_the_order():
    with pytest.raises(InvalidInput, match="not associative"):
        check_merge(operator(sample=[0.1, 0.2, 0.3]))


def test_a_mean_is_refused_if_its_merge_forgets_the_counts():
    def forget(a, b):
        return [a[0] + b[0], (a[1] + b[1]) / 2]

    with pytest.raises(InvalidInput, match="not associative"):
        check_merge(operator(total_and_mean, forget))


def test_a_function_may_change_what_it_gets():
    def grow(a, b):
        a.extend(b)
        return sorted(a)

    def keep(state, key, amount):
        state[key] = sorted([*state.get(key, []), amount])

    check_merge(operator(keep, grow))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (operator(state_by_key=False), "does not say that it keeps its state by key"),
        (operator(lambda state, key, amount: [amount]), "sent a record on"),
        (operator(lambda state, key, amount: state.update(all=1)), "keeps 'all' beside its key"),
        (operator(lambda state, key, amount: 1 / 0), "fails on the sample"),
        (operator(function=lambda a, b: {1, 2}), "not JSON"),
    ],
)
def test_an_operator_whose_keys_cannot_be_split_is_refused(wrong, message):
    with pytest.raises(InvalidInput, match=message):
        check_merge(wrong)


def test_a_sample_of_two_records_says_nothing_about_three():
    with pytest.raises(InvalidInput, match="has 2 records"):
        StateMerge(max, [1, 2])


def test_state_of_one_key_in_two_places_needs_a_merge_function():
    assert merged(operator(), 2, 3) == 5
    with pytest.raises(InvalidInput, match="declares no merge function"):
        merged(Operator("add", add), 2, 3)


def test_a_job_refuses_a_merge_function_of_an_operator_that_sends_records_on():
    policy = parse_policy(policy_data(), "test.yaml")
    parse, count, total = OPERATORS_BY_KEY
    wrong = Operator(
        "count", count.process, count.key, state_by_key=True, merge=StateMerge(max, AMOUNTS)
    )
    with pytest.raises(InvalidInput, match="an edge leaves it"):
        build_topology(JOB, [parse, wrong, total], policy)


def test_a_job_refuses_a_policy_that_splits_an_operator_without_a_merge_function():
    policy = parse_policy(policy_data(splits={"operators": ["total"]}), "test.yaml")
    parse, count, total = OPERATORS_BY_KEY
    build_topology(JOB, OPERATORS_BY_KEY, policy)
    without = Operator("total", total.process, total.key, state_by_key=True)
    with pytest.raises(InvalidInput, match="does not declare how partial states merge"):
        build_topology(JOB, [parse, count, without], policy)
