"""``ballast methods``: explains the methods, and prints the files made from the registry."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from ballast.cli.render import print_json, text_table
from ballast.cli.terminal import print_parts
from ballast.contracts.method_rules import conditions_of, why_unfit
from ballast.contracts.methods import MethodEntry, PlanningProblem, methods
from ballast.contracts.methods_page import limits_text, methods_markdown, needs_text
from ballast.contracts.policy import load_policy

EXAMPLES = {
    "list": "example: ballast methods list --policy policies/flights.yaml",
    "docs": "example: ballast methods docs > docs/methods.md",
    "catalogue": "example: ballast methods catalogue > ballast/contracts/methods.json",
}
CHOSEN_BY_JOB = (PlanningProblem.BALANCE, PlanningProblem.JOINT, PlanningProblem.FIRST_PLACEMENT)
"""Problems whose methods a job may not fit."""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "methods", help="the methods that a policy may name", epilog=EXAMPLES["list"]
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    listing = commands.add_parser("list", help="every method", epilog=EXAMPLES["list"])
    listing.add_argument("--policy", type=Path, metavar="FILE", help="say which of them fit a job")
    listing.add_argument("--json", action="store_true", help="for scripts, with parameters")
    listing.set_defaults(run=_list)
    docs = commands.add_parser("docs", help="the text of docs/methods.md", epilog=EXAMPLES["docs"])
    docs.set_defaults(run=_docs)
    catalogue = commands.add_parser(
        "catalogue", help="the catalogue, from the registry", epilog=EXAMPLES["catalogue"]
    )
    catalogue.set_defaults(run=_catalogue)


def _list(args: argparse.Namespace) -> int:
    misfits = {} if args.policy is None else _misfits(args.policy)
    if args.json:
        rows = [
            asdict(entry) | {"misfit": misfits.get((entry.problem, entry.name))}
            for entry in methods()
        ]
        print_json(rows)
        return 0
    headers = ["problem", "method", "from", "needs", "limits"]
    if args.policy is not None:
        headers.append("does not fit, because it")
    table = [_row(entry, misfits, has_policy=args.policy is not None) for entry in methods()]
    print_parts(text_table(headers, table))
    return 0


def _row(
    entry: MethodEntry, misfits: dict[tuple[PlanningProblem, str], str], *, has_policy: bool
) -> list[str]:
    row = [
        entry.problem.value, entry.name, entry.paper or "Ballast", needs_text(entry),
        limits_text(entry),
    ]  # fmt: skip
    return [*row, misfits.get((entry.problem, entry.name), "")] if has_policy else row


def _misfits(file: Path) -> dict[tuple[PlanningProblem, str], str]:
    """Why methods do not fit the job of a policy file, by problem and name."""
    job = conditions_of(load_policy(file))
    found = {
        (entry.problem, entry.name): why_unfit(entry, job)
        for entry in methods()
        if entry.problem in CHOSEN_BY_JOB
    }
    return {key: reason for key, reason in found.items() if reason is not None}


def _docs(_: argparse.Namespace) -> int:
    print(methods_markdown(), end="")
    return 0


def _catalogue(_: argparse.Namespace) -> int:
    from solvers.planner.registry import catalogue_json

    print(catalogue_json(), end="")
    return 0
