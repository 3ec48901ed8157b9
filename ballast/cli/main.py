"""Entry point of the ``ballast`` command; each module of this package adds its own subcommands."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from ballast import __version__
from ballast.cli import (
    approve,
    compare,
    doctor,
    engine,
    frontier,
    gauges,
    methods,
    plans,
    policy,
    problems,
    resume,
    rollback,
    status,
    tables,
    trigger,
    what_if,
)
from ballast.contracts.errors import BallastError, InvalidInput
from ballast.contracts.process_exit import exit_now

COMMAND_MODULES = (
    plans, status, trigger, approve, rollback, resume, what_if, frontier, compare, problems,
    policy, methods, tables, engine, doctor, gauges,
)  # fmt: skip


EXIT_INTERRUPTED = 130
WITHOUT_RICH = (
    "rich is not installed, which prints for people; to fix it: install ballast[cli]; --json works "
    "without it"
)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser with every subcommand."""
    parser = argparse.ArgumentParser(
        prog="ballast",
        description="Keeps stateful streaming jobs level. Reads the warehouse named by "
        "BALLAST_WAREHOUSE (default .ballast/warehouse).",
        epilog="example: ballast status flights. Commands and exit codes: docs/cli.md",
    )
    parser.add_argument("--version", action="version", version=f"ballast {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in COMMAND_MODULES:
        module.register(subparsers)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    An error of Ballast is printed as one line on standard error; its exit code is returned.
    """
    args = build_parser().parse_args(arguments)
    try:
        code = args.run(args)
        if sys.stdout is not None:
            sys.stdout.flush()
        return int(code)
    except BallastError as error:
        print(f"ballast: {error}", file=sys.stderr)
        return error.exit_code
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("rich"):
            raise
        print(f"ballast: {WITHOUT_RICH}", file=sys.stderr)
        return InvalidInput.exit_code
    except BrokenPipeError:
        # The reader (`| head`) has closed the pipe. Without this, the interpreter prints an error
        # when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("ballast: interrupted; what was started goes on", file=sys.stderr)
        return EXIT_INTERRUPTED


def entry() -> NoReturn:
    """Run the ``ballast`` command and end the process."""
    exit_now(main())


if __name__ == "__main__":
    entry()
