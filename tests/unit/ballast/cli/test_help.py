"""Every command has help with an example that its own parser accepts."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from ballast.airflow import errors as airflow_errors
from ballast.cli.main import build_parser
from ballast.contracts import errors

ROOT = Path(__file__).parents[4]


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parser and all its subparsers."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from parsers(below)


@pytest.mark.parametrize("parser", list(parsers(build_parser())), ids=lambda parser: parser.prog)
def test_help_has_an_example_that_can_be_typed(parser: argparse.ArgumentParser) -> None:
    help_text = parser.format_help()
    found = re.findall(r"ballast [a-z][^\n]*", help_text[help_text.index("example") :])
    assert found
    for example in found:
        words = shlex.split(re.split(r" > |\. ", example)[0])
        assert build_parser().parse_args(words[1:]).run


def test_the_page_of_the_command_line_has_every_exit_code() -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    codes = {
        error.exit_code
        for module in (errors, airflow_errors)
        for error in vars(module).values()
        if isinstance(error, type) and issubclass(error, errors.BallastError)
    }
    assert {code for code in codes if f"\n| {code} |" not in page} == set()


def test_the_page_of_the_command_line_has_every_command() -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    leaves = [
        p.prog for p in parsers(build_parser())
        if not any(isinstance(a, argparse._SubParsersAction) for a in p._actions)
    ]  # fmt: skip
    assert [name for name in leaves if f"`{name}" not in page] == []
