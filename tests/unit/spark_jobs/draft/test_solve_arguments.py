"""The command line of ``solve`` accepts valid options and names invalid ones."""

from __future__ import annotations

from argparse import ArgumentParser

import pytest

from solvers.model.budget import Budget
from solvers.model.stop import Stop
from spark_jobs.draft.solve_arguments import SolveOptions, add_arguments
from tests.support.policies import small_policy


def parse(*words):
    parser = ArgumentParser()
    add_arguments(parser)
    return SolveOptions.of(parser.parse_args(["--job", "probe", "--run-id", "run-1", *words]))


def test_what_is_left_out_is_left_to_the_policy():
    policy = small_policy(budgets={"moves": 3, "pause_s": 1.5})
    assert parse() == SolveOptions()
    assert parse().budget(policy, 1) == Budget(moves=3, bytes=None, pause_s=1.5)


def test_none_takes_a_limit_away_and_zero_is_a_limit():
    policy = small_policy(budgets={"moves": 3, "bytes": 5, "pause_s": 1.5})
    choice = parse("--budget-moves", "none", "--budget-bytes", "0", "--budget-pause-s", "0.25")
    assert choice.budget(policy, 1) == Budget(moves=None, bytes=0, pause_s=0.25)


def test_solver_seed_and_method_are_taken():
    choice = parse("--solver-seconds", "2.5", "--seed", "9", "--method", "flux")
    assert (choice.solver_seconds, choice.seed, choice.method) == (2.5, 9, "flux")


def test_steps_take_the_place_of_the_clock_unless_seconds_are_asked_for():
    policy = small_policy(solver={"seconds": 3.0})
    assert parse().stop(policy) == Stop(seconds=3.0)
    assert parse("--solver-seconds", "2.5").stop(policy) == Stop(seconds=2.5)
    assert parse("--solver-steps", "7").stop(policy) == Stop(steps=7)
    both = parse("--solver-steps", "7", "--solver-seconds", "2.5")
    assert both.stop(policy) == Stop(seconds=2.5, steps=7)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--budget-moves", "1.5"), ("--budget-moves", "1e3"), ("--budget-moves", "١"),
        ("--budget-moves", "NONE"), ("--budget-moves", ""), ("--budget-moves", "10000001"),
        ("--budget-bytes", "1_000"), ("--budget-bytes", "1000\n"), ("--budget-bytes", "10MB"),
        ("--budget-pause-s", "nan"), ("--budget-pause-s", "inf"), ("--budget-pause-s", "=-1"),
        ("--solver-seconds", "0"), ("--solver-seconds", "none"), ("--solver-seconds", "3601"),
        ("--solver-steps", "0"), ("--solver-steps", "1.5"), ("--solver-steps", "1000001"),
        ("--seed", "-1"), ("--seed", "none"), ("--seed", "2147483648"), ("--method", "magic"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_used_ends_with_2_and_names_the_option(option, value, capsys):
    with pytest.raises(SystemExit) as ended:
        parse(f"{option}={value.removeprefix('=')}")
    assert ended.value.code == 2
    assert option in capsys.readouterr().err


def test_a_first_plan_has_the_budget_that_the_policy_gives_it():
    own = {"moves": 40, "bytes": 10**6}
    policy = small_policy(budgets={"moves": 3, "pause_s": 1.5, "first_plan": own})
    assert parse().budget(policy, 0) == Budget(moves=40, bytes=10**6, pause_s=None)
    assert parse().budget(policy, 1) == Budget(moves=3, bytes=None, pause_s=1.5)
    assert parse("--budget-moves", "7").budget(policy, 0).moves == 7


def test_a_form_that_was_left_as_it_came_leaves_the_first_plan_its_own():
    policy = small_policy(budgets={"moves": 3, "pause_s": 1.5, "first_plan": {"moves": 40}})
    as_it_came = parse("--budget-moves", "3", "--budget-bytes", "none", "--budget-pause-s", "1.5")
    assert as_it_came.budget(policy, 0) == Budget(moves=40)
    assert as_it_came.budget(policy, 5) == Budget(moves=3, pause_s=1.5)
