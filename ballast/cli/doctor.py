"""``ballast doctor``: checks a deployment, and says what to do."""

from __future__ import annotations

import argparse

from ballast.cli.progress import show_progress
from ballast.cli.render import BAD, FAINT, GOOD, WARNING, print_json, styled, text_table
from ballast.cli.terminal import print_parts
from ballast.doctor.examination import examine, is_usable
from ballast.doctor.finding import CheckStatus, Finding

EXIT_FAILED = 1
STYLES = {
    CheckStatus.OK: GOOD, CheckStatus.WARNING: WARNING, CheckStatus.FAILED: BAD,
    CheckStatus.NOT_CHECKED: FAINT,
}  # fmt: skip


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "doctor",
        help="check the deployment that the settings name",
        description="Check versions, settings, rights, commits, clocks, policies and tables from "
        "this host. A scratch table is made in the warehouse and removed.",
        epilog="example: ballast doctor --json",
    )
    parser.add_argument("--json", action="store_true", help="for scripts")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print what each check found; return 1 if one has failed."""
    with show_progress("checking") as line:
        findings = examine(progress=lambda text: line.begin(f"checking {text}"))
    usable = is_usable(findings)
    if args.json:
        print_json({"ok": usable, "checks": findings})
    else:
        rows = [[each.check, styled(each.status, STYLES[each.status]), each.seen]
                for each in findings]  # fmt: skip
        print_parts(text_table(("check", "", "seen"), rows), *_remedies(findings), _total(findings))
    return 0 if usable else EXIT_FAILED


def _remedies(findings: list[Finding]) -> list[str]:
    lines = [f"{each.check}: {each.remedy}" for each in findings if each.remedy]
    return ["\n".join(["What to do:", *lines])] if lines else []


def _total(findings: list[Finding]) -> str:
    statuses = [each.status for each in findings]
    counts = [f"{statuses.count(status)} {status}" for status in CheckStatus if status in statuses]
    return f"{len(findings)} checks: {', '.join(counts)}."
