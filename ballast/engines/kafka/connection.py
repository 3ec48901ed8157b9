"""How to connect to a broker: bootstrap servers, TLS and SASL, from a file or the environment.

The settings hold passwords. They are passed to kafka-python and nowhere else: no table, log line,
acknowledgement or error has a value of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ballast.contracts.errors import SettingsError
from ballast.engines.settings_file import settings_of

FILE_VARIABLE = "BALLAST_KAFKA_SETTINGS"
SERVERS_VARIABLE = "BALLAST_KAFKA_BOOTSTRAP_SERVERS"


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.lower() == "true"


_KINDS: Mapping[str, Callable[[str], Any]] = {
    "bootstrap_servers": str,
    "client_dns_lookup": str,
    "request_timeout_ms": int,
    "security_protocol": str,
    "ssl_check_hostname": _flag,
    "ssl_cafile": str,
    "ssl_certfile": str,
    "ssl_keyfile": str,
    "ssl_crlfile": str,
    "ssl_password": str,
    "ssl_ciphers": str,
    "sasl_mechanism": str,
    "sasl_plain_username": str,
    "sasl_plain_password": str,
    "sasl_kerberos_name": str,
    "sasl_kerberos_service_name": str,
    "sasl_kerberos_domain_name": str,
}


class ConnectionSettings(Mapping[str, Any]):
    """Arguments of kafka-python's clients; printed, they show their names alone."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"ConnectionSettings({', '.join(sorted(self._values))})"


def connection_settings(environment: Mapping[str, str] | None = None) -> ConnectionSettings:
    """The settings that the environment names, by default the process's own.

    ``BALLAST_KAFKA_SETTINGS`` names a file with lines ``name = value``, in the names of
    kafka-python, with dots or underscores. Without it ``BALLAST_KAFKA_BOOTSTRAP_SERVERS`` is enough
    for a broker without TLS and passwords.

    Raises:
        SettingsError: neither is set, or the file cannot be used.
    """
    env = os.environ if environment is None else environment
    if env.get(FILE_VARIABLE):
        return settings_in_file(Path(env[FILE_VARIABLE]))
    if env.get(SERVERS_VARIABLE):
        return ConnectionSettings({"bootstrap_servers": env[SERVERS_VARIABLE].split(",")})
    raise SettingsError(
        f"neither {FILE_VARIABLE} nor {SERVERS_VARIABLE} is set",
        allowed="a file of settings, or host:port,host:port",
        remedy="see docs/engine-kafka.md",
    )


def settings_in_file(file: Path) -> ConnectionSettings:
    """The settings in a file.

    Raises:
        SettingsError: the file cannot be read, or a line is no known setting. The error has the
            name of the setting and the number of the line, and no value.
    """
    values: dict[str, Any] = {
        name: _typed(file, number, name, text)
        for number, name, text in settings_of(file, FILE_VARIABLE, _KINDS)
    }
    if "bootstrap_servers" not in values:
        raise SettingsError(f"{file} has no bootstrap_servers", remedy="add the brokers' addresses")
    values["bootstrap_servers"] = [s.strip() for s in values["bootstrap_servers"].split(",")]
    return ConnectionSettings(values)


def _typed(file: Path, number: int, name: str, text: str) -> Any:
    try:
        return _KINDS[name](text)
    except ValueError:
        kind = "true or false" if _KINDS[name] is _flag else "a whole number"
        raise SettingsError(
            f"{file}, line {number}: {name} has a wrong value", allowed=kind,
            remedy="correct the line",
        ) from None  # fmt: skip
