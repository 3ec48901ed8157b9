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
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"{FILE_VARIABLE}: {file} cannot be read ({type(error).__name__})",
            value=str(file),
            remedy="make it readable for this user, and for no other",
        ) from error
    values: dict[str, Any] = {}
    for number, line in enumerate(lines, start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            name, value = _setting(file, number, line)
            values[name] = value
    if "bootstrap_servers" not in values:
        raise SettingsError(f"{file} has no bootstrap_servers", remedy="add the brokers' addresses")
    values["bootstrap_servers"] = [s.strip() for s in values["bootstrap_servers"].split(",")]
    return ConnectionSettings(values)


def _setting(file: Path, number: int, line: str) -> tuple[str, Any]:
    name, is_set, text = line.partition("=")
    name = name.strip().replace(".", "_")
    if not is_set or name not in _KINDS:
        shown = f"{name!r} is" if is_set else "it is"
        raise SettingsError(
            f"{file}, line {number}: {shown} not a setting",
            allowed=", ".join(_KINDS),
            remedy="write it as name = value",
        )
    try:
        return name, _KINDS[name](text.strip())
    except ValueError:
        kind = "true or false" if _KINDS[name] is _flag else "a whole number"
        raise SettingsError(
            f"{file}, line {number}: {name} has a wrong value", allowed=kind,
            remedy="correct the line",
        ) from None  # fmt: skip
