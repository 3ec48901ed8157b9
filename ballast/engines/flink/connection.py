"""How to connect to a cluster: address, TLS and login, from a file or the environment.

The settings hold passwords. They go into the request and nowhere else: no table, log line,
acknowledgement or error has a value of them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from ballast.contracts.errors import SettingsError
from ballast.engines.settings_file import settings_of

FILE_VARIABLE = "BALLAST_FLINK_SETTINGS"
URL_VARIABLE = "BALLAST_FLINK_URL"
NAMES = (
    "url", "username", "password", "token", "ssl_cafile", "ssl_certfile", "ssl_keyfile",
    "ssl_password", "timeout_s",
)  # fmt: skip


@dataclass(frozen=True)
class FlinkConnection:
    """Where the REST API is, and how to log in; printed, it shows no secret."""

    url: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    """For a proxy that asks for a bearer token."""
    ssl_cafile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_password: str | None = field(default=None, repr=False)
    timeout_s: float = 10.0
    """How long one answer is waited for."""


def flink_connection(environment: Mapping[str, str] | None = None) -> FlinkConnection:
    """The connection that the environment names, by default the process's own.

    ``BALLAST_FLINK_SETTINGS`` names a file with lines ``name = value``. Without it
    ``BALLAST_FLINK_URL`` is enough for a cluster without login.

    Raises:
        SettingsError: neither is set, or the file cannot be used.
    """
    env = os.environ if environment is None else environment
    if env.get(FILE_VARIABLE):
        return connection_in_file(Path(env[FILE_VARIABLE]))
    if env.get(URL_VARIABLE):
        return _connection({"url": env[URL_VARIABLE]}, URL_VARIABLE)
    raise SettingsError(
        f"neither {FILE_VARIABLE} nor {URL_VARIABLE} is set",
        allowed="a file of settings, or http://host:port",
        remedy="see docs/engine-flink.md",
    )


def connection_in_file(file: Path) -> FlinkConnection:
    """The connection in a file.

    Raises:
        SettingsError: the file cannot be read, or a line is no known setting. The error has the
            name of the setting and the number of the line, and no value.
    """
    values = {name: text for _, name, text in settings_of(file, FILE_VARIABLE, NAMES)}
    return _connection(values, str(file))


def _connection(values: Mapping[str, str], where: str) -> FlinkConnection:
    url = values.get("url", "").rstrip("/")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(
            f"{where}: url is not an address of a REST API",
            allowed="http://host:port or https://host:port",
            remedy="give the address of the JobManager or of the proxy before it",
        )
    if parts.username or parts.password:
        raise SettingsError(
            f"{where}: url has a login in it",
            remedy=f"write username and password as lines of their own into {FILE_VARIABLE}",
        )
    if ("username" in values) != ("password" in values) or {"username", "token"} <= values.keys():
        raise SettingsError(
            f"{where}: the login is not complete, or there are two",
            allowed="username and password, or token, or none",
            remedy="correct the file",
        )
    texts = {name: text for name, text in values.items() if name not in ("url", "timeout_s")}
    return FlinkConnection(url, timeout_s=_seconds(values.get("timeout_s"), where), **texts)


def _seconds(text: str | None, where: str) -> float:
    if text is None:
        return FlinkConnection.timeout_s
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found <= 600:
        raise SettingsError(
            f"{where}: timeout_s has a wrong value", allowed="a number above 0 and at most 600",
            remedy="correct the line",
        )  # fmt: skip
    return found
