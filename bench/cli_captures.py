"""Pictures of commands on a terminal, for docs/cli.md: ``python -m bench.cli_captures``.

Each command runs on a terminal of its own, on a generated job with promised and measured figures.
What it prints, colours included, becomes an SVG.
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from ballast.contracts.settings import load_settings
from bench.common.runner import short_parser
from bench.review_page.warehouse import SampleJob, job_policy, write_job

ROOT = Path(__file__).resolve().parents[1]
JOB = "clicks"
COLUMNS, ROWS = 108, 60
HOME = Path("/tmp/ballast")  # noqa: S108 - a short path that is the same on every machine


@dataclass(frozen=True)
class Capture:
    """A command, the name of its picture, and the exit code that it has here."""

    name: str
    arguments: tuple[str, ...]
    code: int = 0


CAPTURES = (
    Capture("cli-plans-show", ("plans", "show", JOB, "3")),
    Capture("cli-plans-list", ("plans", "list", JOB)),
    # The folder of policies is not there.
    Capture("cli-doctor", ("doctor",), code=1),
)


def main() -> int:
    """Write the pictures."""
    parser = short_parser(__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    args = parser.parse_args()
    if HOME.exists():
        raise SystemExit(f"{HOME} exists: the pictures show this path; remove or rename it")
    home = str(HOME)
    try:
        env = os.environ | {
            "BALLAST_HOME": home, "BALLAST_POLICIES": f"{home}/policies",
            "BALLAST_WAREHOUSE": f"{home}/warehouse", "TERM": "xterm-256color",
        }  # fmt: skip
        env.pop("NO_COLOR", None)
        sample = SampleJob(job_policy(JOB, 3, 20, 5), per_version=6, has_promises=True)
        write_job(load_settings(env), sample, 4)
        (HOME / "jars").symlink_to(load_settings({}).jars)
        for capture in CAPTURES:
            path = args.out / f"{capture.name}.svg"
            path.write_text(picture(capture, printed(capture, env)), encoding="utf-8")
            print(path)
    finally:
        shutil.rmtree(HOME, ignore_errors=True)
    return 0


def printed(capture: Capture, env: dict[str, str]) -> str:
    """What the command prints on a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    command = [sys.executable, "-m", "ballast.cli.main", *capture.arguments]
    # Progress is not part of the picture.
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL, env=env
    )
    os.close(theirs)
    parts = []
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux: the process has closed its side
            break
        if not part:
            break
        parts.append(part)
    os.close(ours)
    if process.wait() != capture.code:
        raise SystemExit(f"{' '.join(command)} failed: {b''.join(parts).decode()}")
    return b"".join(parts).decode().replace("\r\n", "\n")


def picture(capture: Capture, text: str) -> str:
    """The SVG of what a command printed."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(Text.from_ansi(text), soft_wrap=True)
    title = f"ballast {' '.join(capture.arguments)}"
    svg = console.export_svg(title=title, unique_id=capture.name)
    # rich names fonts on the web; a picture of the documents loads nothing.
    return re.sub(r"@font-face \{.*?\}|<!-- Generated.*?-->", "", svg, flags=re.DOTALL)


if __name__ == "__main__":
    sys.exit(main())
