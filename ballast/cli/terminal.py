"""Printing for people: what a stream can show, and rich's renderables on it.

rich is imported when something is printed for people. Output for scripts (``--json``) and
``import ballast.store`` do without it (ADR 83).
"""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

UNLIMITED = 1_000_000
"""Width of what is no terminal: a line of a table stays one line, however long it is."""
NARROWEST = 40
"""Tables are laid out for at least so many columns."""
PLAIN_TERMINALS = ("dumb", "unknown")


@dataclass(frozen=True)
class Terminal:
    """What a stream can show."""

    width: int | None = None
    """Columns; None for a file or a pipe, whose lines may have any length."""
    has_colour: bool = False
    has_unicode: bool = True
    """Whether characters beyond ASCII may be used to draw."""

    @property
    def is_terminal(self) -> bool:
        """Whether a person looks at the stream."""
        return self.width is not None

    @property
    def columns(self) -> int:
        """The width that tables are laid out for."""
        return UNLIMITED if self.width is None else max(NARROWEST, self.width)


def terminal_of(stream: TextIO, environment: Mapping[str, str] | None = None) -> Terminal:
    """What a stream can show.

    ``NO_COLOR`` with any value and ``TERM=dumb`` switch colours off. ``COLUMNS`` is the width of a
    terminal, and of nothing else.

    Args:
        stream: the stream.
        environment: the variables; those of the process by default.
    """
    env = os.environ if environment is None else environment
    has_unicode = _is_unicode(stream)
    if not _is_terminal(stream):
        return Terminal(has_unicode=has_unicode)
    has_colour = not env.get("NO_COLOR") and env.get("TERM", "") not in PLAIN_TERMINALS
    return Terminal(_width(stream, env), has_colour, has_unicode)


def output_terminal() -> Terminal:
    """What standard output can show."""
    return terminal_of(sys.stdout)


def make_console(terminal: Terminal, stream: TextIO) -> Console:
    """A console of rich for a stream. Text is printed as it is: brackets are no markup."""
    from rich.console import Console

    return Console(
        file=stream,
        width=terminal.columns,
        force_terminal=terminal.is_terminal,
        # With a height too, rich takes the width as it is, on dumb terminals as well.
        height=25,
        # The palette of the terminal itself: no other colour is used.
        color_system="standard" if terminal.has_colour else None,
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
    )


def print_parts(*parts: RenderableType) -> None:
    """Print parts to standard output, with an empty line between two of them.

    A character that the stream cannot encode is printed as a question mark.
    """
    terminal, stream = output_terminal(), sys.stdout
    console = make_console(terminal, stream)
    with console.capture() as captured:
        for number, part in enumerate(parts):
            if number:
                console.print()
            console.print(part, soft_wrap=isinstance(part, str) and not terminal.is_terminal)
    text = captured.get()
    if not terminal.is_terminal:
        text = "\n".join(line.rstrip() for line in text.split("\n"))
    # Written here and not by rich, which ends the process with code 1 if the reader has gone.
    stream.write(encodable(text, stream))


def encodable(text: str, stream: TextIO) -> str:
    """The text with a question mark for every character that the stream cannot encode."""
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, errors="replace").decode(encoding)


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # the stream is closed
        return False


def _is_unicode(stream: TextIO) -> bool:
    try:
        return codecs.lookup(stream.encoding or "utf-8").name.startswith("utf")
    except LookupError:
        return False


def _width(stream: TextIO, env: Mapping[str, str]) -> int:
    columns = env.get("COLUMNS", "")
    if columns.isdigit() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
