"""``ballast policy``: checks a policy file, or prints the JSON schema for editors."""

from __future__ import annotations

import argparse
from pathlib import Path

from ballast.cli.render import to_json
from ballast.contracts.policy import JobPolicy, LimitsPolicy, load_policy, policy_schema

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
        print(to_json(policy.model_dump(mode="json", by_alias=True)))
    else:
        print(f"{args.file}: ok. {_summary(policy)}")
        for line in _advice(policy):
            print(f"advice: {line}")
    return 0


def _schema(_: argparse.Namespace) -> int:
    print(to_json(policy_schema()))
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
    """Return advice on operators that could be one component; it needs no metrics."""
    from solvers.collocate.component_advice import advice_before_metrics

    return advice_before_metrics(policy)


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
