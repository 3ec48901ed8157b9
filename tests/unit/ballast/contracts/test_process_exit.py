"""A program ends with its own exit code, also with broken output streams."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = (
    "from ballast.contracts.process_exit import exit_now; import sys; "
    "print('said'); exit_now({code})"
)


def run(code: int, redirect: str = "") -> subprocess.CompletedProcess[str]:
    command = f'"{sys.executable}" -c "{PROGRAM.format(code=code)}" {redirect}'
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(
        ["sh", "-c", command],
        check=False, capture_output=True, text=True, timeout=60, env=buffered,
    )  # fmt: skip


@pytest.mark.parametrize("code", [0, 3])
def test_what_was_said_is_written_out_though_nothing_is_torn_down(code: int) -> None:
    ended = run(code)
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, "said\n", "")


@pytest.mark.parametrize("redirect", ["2>&-", ">&-", ">&- 2>&-"])
def test_a_stream_that_was_closed_before_is_no_failure(redirect: str) -> None:
    assert run(0, redirect).returncode == 0


def test_what_could_not_be_written_is_a_failure_of_its_own() -> None:
    assert run(0, ">/dev/full").returncode == 1
    assert run(3, ">/dev/full").returncode == 3
