"""Output on terminals of any width and encoding, into pipes, and without rich."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from dataclasses import dataclass
from typing import IO

import pytest

from ballast.cli.render import column_widths, text_table
from ballast.cli.terminal import Terminal, encodable, print_parts, terminal_of
from ballast.contracts.settings import load_settings
from bench.review_page.warehouse import SampleJob, job_policy, write_job

JOB = "clicks"
ESCAPE = "\x1b"


class Screen(io.TextIOWrapper):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def screen(encoding: str = "utf-8") -> Screen:
    return Screen(io.BytesIO(), encoding=encoding)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables of a command, with a job of five nodes that promised and was measured."""
    home = tmp_path_factory.mktemp("home")
    own = {"BALLAST_HOME": str(home), "BALLAST_POLICIES": str(home / "policies")}
    sample = SampleJob(job_policy(JOB, 3, 20, 5), per_version=6, has_promises=True)
    write_job(load_settings(own), sample, 4)
    keep = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return keep | own | {"TERM": "xterm-256color", "PYTHONUTF8": "0", "LC_ALL": "C.UTF-8"}


@dataclass(frozen=True)
class Shown:
    """What a command printed on a terminal, and how it ended."""

    text: str
    code: int

    @property
    def widest(self) -> int:
        return max(len(line) for line in self.text.splitlines())


def on_terminal(environment: dict[str, str], columns: int, *arguments: str) -> Shown:
    """Run a command on a terminal of its own."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "ballast.cli.main", *arguments],
        stdin=theirs, stdout=theirs, stderr=theirs, env=environment,
    )  # fmt: skip
    os.close(theirs)
    with os.fdopen(ours, "rb") as stream:
        found = _read_to_the_end(stream)
    return Shown(found.decode().replace("\r\n", "\n"), process.wait())


def _read_to_the_end(stream: IO[bytes]) -> bytes:
    found = b""
    while True:
        try:
            part = stream.read1(65536)  # type: ignore[attr-defined]
        except OSError:  # Linux: the process has closed its side
            return found
        if not part:
            return found
        found += part


@pytest.mark.parametrize("columns", [45, 80, 140])
def test_no_line_is_wider_than_the_terminal(environment: dict[str, str], columns: int) -> None:
    shown = on_terminal(environment | {"NO_COLOR": "1"}, columns, "plans", "show", JOB, "3")
    assert shown.code == 0
    assert shown.widest <= columns
    assert ESCAPE not in shown.text
    assert "(above)" in shown.text
    assert "│" in shown.text


def test_a_terminal_has_colours_and_a_dumb_one_has_none(environment: dict[str, str]) -> None:
    assert ESCAPE in on_terminal(environment, 100, "plans", "list", JOB).text
    dumb = on_terminal(environment | {"TERM": "dumb"}, 60, "plans", "list", JOB)
    assert ESCAPE not in dumb.text
    assert dumb.widest <= 60


def test_a_pipe_gets_one_line_for_each_row_without_colours(environment: dict[str, str]) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "ballast.cli.main", "plans", "list", JOB],
        env=environment | {"COLUMNS": "40", "FORCE_COLOR": "1"}, capture_output=True, check=True,
    )  # fmt: skip
    lines = found.stdout.decode().splitlines()
    assert len(lines) == 2 + 4
    assert ESCAPE not in found.stdout.decode()
    assert found.stderr == b""
    assert [line for line in lines if line != line.rstrip()] == []


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_output_fits_streams_without_unicode(environment: dict[str, str], encoding: str) -> None:
    env = environment | {"PYTHONIOENCODING": encoding}
    for arguments in (["plans", "show", JOB], ["plans", "show", JOB, "--details"]):
        found = subprocess.run(
            [sys.executable, "-m", "ballast.cli.main", *arguments],
            env=env, capture_output=True, check=True,
        )  # fmt: skip
        assert "####" in found.stdout.decode("ascii")


def test_json_is_valid_on_a_stream_without_unicode(environment: dict[str, str]) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "ballast.cli.main", "methods", "list", "--json"],
        env=environment | {"PYTHONIOENCODING": "ascii"}, capture_output=True, check=True,
    )  # fmt: skip
    assert json.loads(found.stdout.decode("ascii"))


def test_progress_is_on_a_terminal_and_not_in_a_pipe(environment: dict[str, str]) -> None:
    arguments = ("what-if", JOB, "--seconds", "0.3")
    shown = on_terminal(environment, 120, *arguments)
    assert shown.code == 0, shown.text
    assert "today: " in shown.text
    found = subprocess.run(
        [sys.executable, "-m", "ballast.cli.main", *arguments],
        env=environment, capture_output=True, check=True,
    )  # fmt: skip
    assert found.stderr == b""


def test_json_needs_no_rich_and_text_says_what_to_install(environment: dict[str, str]) -> None:
    code = (
        "import sys; sys.modules['rich'] = sys.modules['rich.console'] = None\n"
        "from ballast.cli.main import main\n"
        f"assert main(['plans', 'show', {JOB!r}, '--json']) == 0\n"
        f"sys.exit(main(['plans', 'list', {JOB!r}]))\n"
    )
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    assert found.returncode == 2
    assert json.loads(found.stdout)["version"] == 4
    assert b"install ballast[cli]; --json works without it" in found.stderr


MODULES = ("ballast.store.tables", "ballast.streaming.acks", "ballast.readmodel.plans")


def test_the_library_does_not_import_rich(environment: dict[str, str]) -> None:
    code = f"import sys, {', '.join(MODULES)}; sys.exit('rich' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"COLUMNS": "100", "TERM": "xterm"}, Terminal(100, True, True)),
        ({"COLUMNS": "0", "TERM": "xterm"}, Terminal(80, True, True)),
        ({"COLUMNS": "wide", "NO_COLOR": "1"}, Terminal(80, False, True)),
        ({"TERM": "dumb"}, Terminal(80, False, True)),
        ({"NO_COLOR": "", "TERM": "xterm"}, Terminal(80, True, True)),
    ],
)
def test_variables_say_what_a_terminal_shows(variables: dict[str, str], expected: Terminal) -> None:
    assert terminal_of(screen(), variables) == expected


def test_what_is_no_terminal_has_no_width() -> None:
    pipe = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    assert terminal_of(pipe, {"COLUMNS": "100"}) == Terminal(None, False, False)
    pipe.close()
    assert terminal_of(pipe, {}).width is None
    assert encodable("µ → x", screen("latin-1")) == "µ ? x"


def test_widths_of_columns_shrink_the_widest_first() -> None:
    assert column_widths([10, 30, 5], [10, 4, 5], 100) == [10, 30, 5]
    assert column_widths([10, 30, 5], [10, 4, 5], 30) == [10, 15, 5]
    assert column_widths([10, 30, 5], [10, 4, 5], 3) == [10, 4, 5]


def test_brackets_in_values_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    print_parts("[bold]a[/bold] :smile:", text_table(["x [red]"], [["[/]"]]))
    assert capsys.readouterr().out.splitlines() == [
        "[bold]a[/bold] :smile:", "", "x [red]", "───────", "[/]"]  # fmt: skip


def test_a_reader_that_leaves_ends_a_command_with_0(environment: dict[str, str]) -> None:
    command = (
        f"{sys.executable} -m ballast.cli.main methods list | head -1; exit ${{PIPESTATUS[0]}}"
    )
    found = subprocess.run(["bash", "-c", command], env=environment, capture_output=True)
    assert (found.returncode, found.stderr) == (0, b"")
