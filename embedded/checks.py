"""Checks before the stack starts; each error says what to do."""

from __future__ import annotations

import errno
import re
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path

import psutil

from embedded.errors import PreflightFailed
from embedded.java import java_problem

LOOPBACK = "127.0.0.1"
PORT_VARIABLE = "BALLAST_PORT"
DEFAULT_PORT = 8080
MIN_FREE_BYTES = 2 * 1024**3


def port_from(env: Mapping[str, str]) -> int:
    """Port of the Airflow UI: ``BALLAST_PORT``, or 8080."""
    text = env.get(PORT_VARIABLE, str(DEFAULT_PORT))
    if not (re.fullmatch("[0-9]{4,5}", text) and 1024 <= int(text) <= 65535):
        raise PreflightFailed(f"{PORT_VARIABLE} is {text!r}; allowed: a number from 1024 to 65535")
    return int(text)


def check_java(env: Mapping[str, str] | None = None) -> None:
    """Raises if there is no Java that Spark runs on."""
    problem = java_problem(env)
    if problem:
        raise PreflightFailed(f"{problem}; to fix it: make setup, or point JAVA_HOME at one")


def check_disk(folder: Path, needed: int = MIN_FREE_BYTES) -> None:
    """Raises if the disk has too little free space for logs and tables."""
    free = shutil.disk_usage(_existing(folder)).free
    if free < needed:
        raise PreflightFailed(
            f"only {free / 1024**3:.1f} GiB are free for {folder}, and at least "
            f"{needed / 1024**3:.0f} GiB are needed; to fix it: free some space (make clean), "
            "or point BALLAST_HOME at another disk"
        )


def check_port(port: int) -> None:
    """Raises if another program listens on the port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the server does, so that lingering connections of an earlier run do not matter.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            raise PreflightFailed(_port_message(port)) from error


def _port_message(port: int) -> str:
    owner = listener_of(port)
    by = f" by process {owner.pid} ({owner.name()})" if owner else ""
    return (
        f"port {port} is in use{by}; to fix it: stop that program, or choose another port, "
        f"e.g. {PORT_VARIABLE}={port + 1} make run"
    )


def listener_of(port: int) -> psutil.Process | None:
    """The process that listens on a port, or None if this user may not see it."""
    try:
        for connection in psutil.net_connections(kind="tcp"):
            listens = connection.status == psutil.CONN_LISTEN
            if listens and connection.pid and connection.laddr[1:2] == (port,):
                return psutil.Process(connection.pid)
    except psutil.Error:
        return None
    return None


def _existing(folder: Path) -> Path:
    while not folder.exists():
        folder = folder.parent
    return folder
