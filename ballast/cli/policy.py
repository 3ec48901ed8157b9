"""``ballast policy``: checks a policy file, or prints the JSON schema for editors."""

from __future__ import annotations

import argparse
from pathlib import Path

from ballast.cli.render import print_json
from ballast.cli.terminal import print_parts
from ballast.contracts.policy import (
    MEASURING_METHODS,
    JobPolicy,
    LimitsPolicy,
    load_policy,
    policy_schema,
)

EXAMPLES = {
    "check": "example: ballast policy check policies/flights.yaml",
    "schema": "example: ballast policy schema > policies/policy.schema.json",
}


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "policy", help="check job policy files", epilog=EXAMPLES["check"]
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    check = commands.add_parser(
        "check", help="check one policy file and say what it means", epilog=EXAMPLES["check"]
    )
    check.add_argument("file", type=Path, metavar="FILE", help="such as policies/flights.yaml")
    check.add_argument("--json", action="store_true", help="print the policy with its defaults")
    check.set_defaults(run=_check)
    schema = commands.add_parser(
        "schema", help="print the JSON schema of policy files", epilog=EXAMPLES["schema"]
    )
    schema.set_defaults(run=_schema)


def _check(args: argparse.Namespace) -> int:
    policy = load_policy(args.file)
    if args.json:
        print_json(policy.model_dump(mode="json", by_alias=True))
    else:
        advice = [f"advice: {line}" for line in _advice(policy)]
        print_parts("\n".join([f"{args.file}: ok. {_summary(policy)}", *advice]))
    return 0


def _schema(_: argparse.Namespace) -> int:
    print_json(policy_schema())
    return 0


def _summary(policy: JobPolicy) -> str:
    key_groups = sum(operator.key_groups for operator in policy.operators)
    draining = sum(node.draining for node in policy.nodes)
    return (
        f"Job {policy.job}: {len(policy.operators)} operators with {key_groups} key groups on "
        f"{len(policy.nodes)} nodes ({draining} draining), windows of {policy.window_s:g} s, "
        f"{policy.windows_per_period} to a statistics period, schedule "
        f"{policy.schedule or 'none'}, budgets {_budgets(policy)}."
    )


def _advice(policy: JobPolicy) -> list[str]:
    """Return advice that needs no metrics: on the precision, and on operators that could be one."""
    from solvers.collocate.component_advice import advice_before_metrics

    precision = _precision_advice(policy)
    return [*([precision] if precision else []), *advice_before_metrics(policy)]


def _precision_advice(policy: JobPolicy) -> str:
    """Return why plans are not made with the precision of the policy; empty if they are."""
    from solvers.noise.noise_estimate import FEWEST_WINDOWS

    solver = policy.solver
    if solver.precision != "measured":
        return ""
    if solver.method not in MEASURING_METHODS:
        return (
            f"solver.precision is measured, but method {solver.method} looks for the smallest load "
            f"distance; {' and '.join(MEASURING_METHODS)} stop where that cannot be measured"
        )
    if policy.windows_per_period < FEWEST_WINDOWS:
        return (
            f"a statistics period has {policy.windows_per_period} windows; an estimate of the "
            f"noise needs {FEWEST_WINDOWS}, and without it plans have no interval"
        )
    return ""


def _budgets(policy: JobPolicy) -> str:
    first = policy.budgets.first_plan
    of_first = "" if first is None else f"; those of the first plan {_limits(first)}"
    return _limits(policy.budgets) + of_first


def _limits(limits: LimitsPolicy) -> str:
    named = [
        f"{name} {value:,}"
        for name, value in limits.model_dump(include={"moves", "bytes", "pause_s"}).items()
        if value is not None
    ]
    return ", ".join(named) or "none"
