"""A request to put an earlier version in force again, and its command line."""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from dataclasses import dataclass

from spark_jobs.program.arguments import add_run_arguments, one_line

LARGEST_VERSION = 10**15


@dataclass(frozen=True)
class RollbackRequest:
    """Which version comes back, why, and whether lost nodes may be replaced."""

    version: int
    reason: str
    force_nodes: bool = False
    """Whether key groups that the version has on lost nodes may be placed on other nodes."""
    by: str = ""
    """Who asked for the rollback."""

    @property
    def plan_reason(self) -> str:
        """The reason of the new plan."""
        return f"content of version {self.version} again: {self.reason}"

    @classmethod
    def of(cls, arguments: Namespace) -> RollbackRequest:
        """The request that :func:`add_arguments` parsed."""
        is_forced = arguments.force_nodes == "true"
        return cls(arguments.version, arguments.reason, is_forced, arguments.by)


def version_number(text: str) -> int:
    """Parse the number of a version."""
    if not re.fullmatch(r"[1-9][0-9]{0,15}", text) or int(text) > LARGEST_VERSION:
        raise ArgumentTypeError(f"version {text[:40]!r} cannot be used; allowed: 1, 2, ...")
    return int(text)


def reason_argument(text: str) -> str:
    """Parse the reason, which must not be empty."""
    line = one_line(text)
    if not line:
        raise ArgumentTypeError("is empty; give the reason, which the log of plans keeps")
    return line


def add_arguments(parser: ArgumentParser) -> None:
    """The arguments of ``rollback``."""
    add_run_arguments(parser)
    parser.add_argument("--version", type=version_number, required=True, help="version to restore")
    parser.add_argument(
        "--reason", type=reason_argument, required=True, help="why; kept in the log of plans"
    )
    parser.add_argument(
        "--force-nodes", nargs="?", choices=("true", "false"), const="true", default="false",
        help="place key groups that the version has on lost nodes on other nodes",
    )  # fmt: skip
    parser.add_argument("--by", type=one_line, default="", help="who asked for it")
