"""Settings of the connection pass through, and no error or text shows their values."""

from __future__ import annotations

from pathlib import Path

import pytest

from ballast.contracts.errors import SettingsError
from ballast.engines.kafka.connection import connection_settings, settings_in_file

SECRET = "s3cret-word"


def write(folder: Path, text: str) -> Path:
    file = folder / "client.properties"
    file.write_text(text)
    return file


def test_tls_and_sasl_settings_pass_through_with_dots_or_underscores(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "# brokers\nbootstrap.servers = a:9093, b:9093\nsecurity_protocol=SASL_SSL\n"
        f"sasl.mechanism = SCRAM-SHA-512\nsasl_plain_password = {SECRET}\n"
        "ssl_check_hostname = true\nrequest_timeout_ms = 9000\n",
    )
    assert dict(settings_in_file(file)) == {
        "bootstrap_servers": ["a:9093", "b:9093"],
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_password": SECRET,
        "ssl_check_hostname": True,
        "request_timeout_ms": 9000,
    }


def test_printed_settings_show_names_alone(tmp_path: Path) -> None:
    found = settings_in_file(
        write(tmp_path, f"bootstrap_servers = a:1\nsasl_plain_password = {SECRET}\n")
    )
    assert SECRET not in f"{found} {found!r}"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (f"sasl_password = {SECRET}\n", "line 1: 'sasl_password' is not a setting"),
        (f"bootstrap_servers = a:1\n{SECRET}\n", "line 2: it is not a setting"),
        (f"ssl_check_hostname = {SECRET}\n", "line 1: ssl_check_hostname has a wrong value"),
        (f"request_timeout_ms = {SECRET}\n", "allowed: a whole number"),
        (f"sasl_plain_password = {SECRET}\n", "has no bootstrap_servers"),
    ],
)
def test_an_error_names_the_setting_and_not_its_value(
    tmp_path: Path, text: str, named: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        settings_in_file(write(tmp_path, text))
    assert named in str(caught.value)
    assert SECRET not in f"{caught.value} {caught.value.__dict__} {caught.value.__cause__}"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"gone\.properties cannot be read"):
        settings_in_file(tmp_path / "gone.properties")


def test_the_environment_names_a_file_or_servers(tmp_path: Path) -> None:
    file = write(tmp_path, "bootstrap_servers = a:1\n")
    both = {"BALLAST_KAFKA_SETTINGS": str(file), "BALLAST_KAFKA_BOOTSTRAP_SERVERS": "b:2"}
    assert connection_settings(both)["bootstrap_servers"] == ["a:1"]
    servers = {"BALLAST_KAFKA_BOOTSTRAP_SERVERS": "b:2,c:3"}
    assert connection_settings(servers)["bootstrap_servers"] == ["b:2", "c:3"]
    with pytest.raises(SettingsError, match="neither BALLAST_KAFKA_SETTINGS nor"):
        connection_settings({})
