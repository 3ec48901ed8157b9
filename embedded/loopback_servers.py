"""What servers that run on loopback have in common: ports, and the end of a log."""

from __future__ import annotations

import socket
from pathlib import Path

from embedded.checks import LOOPBACK

LINES_SHOWN = 20


def free_ports(count: int) -> list[int]:
    """Ports of this machine that no process uses now, all different."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()


def end_of_log(log: Path) -> str:
    """The last lines of a log, indented, for an error."""
    text = log.read_text(encoding="utf-8", errors="replace")
    return "\n".join(f"  {line}" for line in text.splitlines()[-LINES_SHOWN:])
