"""``ballast gauges``: printed once, and served until it is stopped."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from ballast.cli.main import main
from ballast.contracts.settings import load_settings
from ballast.store.tables import address
from bench.review_page.warehouse import SampleJob, job_policy, write_job

JOB = "clicks"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    own = {"BALLAST_HOME": str(tmp_path), "BALLAST_POLICIES": str(tmp_path / "policies")}
    write_job(load_settings(own), SampleJob(job_policy(JOB, 2, 10, 3), per_version=3), 2)
    return own | {"PATH": os.environ["PATH"]}


def test_gauges_are_printed(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("BALLAST_WAREHOUSE", raising=False)
    assert main(["gauges"]) == 0
    everything = capsys.readouterr().out
    assert f'ballast_plan_version{{job="{JOB}"}} 2\n' in everything
    assert main(["gauges", "orders"]) == 0
    assert 'ballast_plan_version{job="orders"} 0\n' in capsys.readouterr().out
    for wrong in ("9310", "127.0.0.1:x", ":1", "127.0.0.1:70000"):
        assert main(["gauges", "--listen", wrong]) == 2
    assert "HOST:PORT" in capsys.readouterr().err


def test_gauges_are_served_until_the_process_is_stopped(environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "ballast.cli.main", "gauges", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        found = re.search(r"http://\S+", process.stderr.readline())
        assert found is not None
        with urllib.request.urlopen(found[0]) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert f'ballast_plan_version{{job="{JOB}"}} 2\n' in answer.read().decode()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(found[0].replace("metrics", "other"))
        log = Path(address(load_settings(environment), "plans.log"), "_delta_log")
        for file in log.iterdir():
            file.write_text("{")
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(found[0])
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    finally:
        process.kill()
        process.communicate()
