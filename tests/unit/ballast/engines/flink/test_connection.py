"""Settings of the connection pass through, and no error or text shows their secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from ballast.contracts.errors import SettingsError
from ballast.engines.flink.connection import connection_in_file, flink_connection

SECRET = "s3cret-word"


def write(folder: Path, text: str) -> Path:
    file = folder / "flink.properties"
    file.write_text(text)
    return file


def test_login_and_tls_settings_pass_through(tmp_path: Path) -> None:
    found = connection_in_file(
        write(
            tmp_path,
            "# cluster\nurl = https://flink:8081/\nusername = ada\n"
            f"password = {SECRET}=x\nssl.cafile = ca.pem\nssl-certfile=me.pem\ntimeout_s = 2.5\n",
        )
    )
    assert (found.url, found.username, found.password) == (
        "https://flink:8081", "ada", f"{SECRET}=x",
    )  # fmt: skip
    assert (found.ssl_cafile, found.ssl_certfile, found.timeout_s) == ("ca.pem", "me.pem", 2.5)


def test_a_printed_connection_shows_no_secret(tmp_path: Path) -> None:
    text = f"url = http://f:1\nusername = ada\npassword = {SECRET}\nssl_password = {SECRET}\n"
    found = connection_in_file(write(tmp_path, text))
    assert SECRET not in f"{found} {found!r}"
    token = connection_in_file(write(tmp_path, f"url = http://f:1\ntoken = {SECRET}\n"))
    assert SECRET not in f"{token} {token!r}"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (f"secret = {SECRET}\n", "line 1: 'secret' is not a setting"),
        (f"url = http://f:1\n{SECRET}\n", "line 2: it is not a setting"),
        (f"password = {SECRET}\n", "url is not an address"),
        (f"url = ftp://{SECRET}\n", "allowed: http://host:port"),
        (f"url = http://ada:{SECRET}@f:1\n", "url has a login in it"),
        (f"url = http://f:1\npassword = {SECRET}\n", "the login is not complete"),
        (f"url = http://f:1\nusername=a\npassword=b\ntoken={SECRET}\n", "or there are two"),
        (f"url = http://f:1\ntimeout_s = {SECRET}\n", "timeout_s has a wrong value"),
        ("url = http://f:1\ntimeout_s = nan\n", "timeout_s has a wrong value"),
    ],
)
def test_an_error_names_the_setting_and_not_its_value(
    tmp_path: Path, text: str, named: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        connection_in_file(write(tmp_path, text))
    assert named in str(caught.value)
    assert SECRET not in f"{caught.value} {caught.value.__dict__} {caught.value.__cause__}"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"gone\.properties cannot be read"):
        connection_in_file(tmp_path / "gone.properties")


def test_the_environment_names_a_file_or_an_address(tmp_path: Path) -> None:
    file = write(tmp_path, "url = http://a:1\n")
    both = {"BALLAST_FLINK_SETTINGS": str(file), "BALLAST_FLINK_URL": "http://b:2"}
    assert flink_connection(both).url == "http://a:1"
    assert flink_connection({"BALLAST_FLINK_URL": "http://b:2"}).url == "http://b:2"
    with pytest.raises(SettingsError, match="neither BALLAST_FLINK_SETTINGS nor"):
        flink_connection({})
