"""Each check refuses with a message that says what to do."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from embedded import checks
from embedded.errors import PreflightFailed


def test_the_port_is_8080_unless_the_variable_says_otherwise() -> None:
    assert checks.port_from({}) == 8080
    assert checks.port_from({"BALLAST_PORT": "18080"}) == 18080


@pytest.mark.parametrize("text", ["", "80", "70000", "-1", "http", "8080\n", "²", "8" * 5000])
def test_a_port_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(PreflightFailed, match="BALLAST_PORT"):
        checks.port_from({"BALLAST_PORT": text})


def test_a_port_in_use_is_refused_with_its_owner_and_the_variable() -> None:
    with socket.socket() as listener:
        listener.bind((checks.LOOPBACK, 0))
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(PreflightFailed, match=rf"port {port} is in use") as refused:
            checks.check_port(port)
    assert f"process {os.getpid()}" in str(refused.value)
    assert "BALLAST_PORT=" in str(refused.value)


def test_a_port_that_was_just_left_is_free() -> None:
    with socket.create_server((checks.LOOPBACK, 0)) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection((checks.LOOPBACK, port)):
            listener.accept()[0].close()
    checks.check_port(port)


def test_a_full_disk_is_refused_for_a_folder_that_does_not_exist_yet(tmp_path: Path) -> None:
    with pytest.raises(PreflightFailed, match="GiB are free"):
        checks.check_disk(tmp_path / "not" / "there", needed=2**62)


def test_a_disk_with_room_passes(tmp_path: Path) -> None:
    checks.check_disk(tmp_path, needed=1)


def test_no_java_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(PreflightFailed, match="make setup"):
        checks.check_java({"PATH": str(tmp_path)})
