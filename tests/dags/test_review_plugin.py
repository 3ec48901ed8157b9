"""Airflow loads the review page, and nothing else of its folder, as a plugin."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
import json, sys
from airflow import plugins_manager
plugins, errors = plugins_manager._get_plugins()
ours = next(plugin for plugin in plugins if plugin.name == "ballast_review")
loaded = "ballast.store" in sys.modules
from fastapi.testclient import TestClient
from airflow.api_fastapi.app import init_auth_manager
init_auth_manager()
client = TestClient(ours.fastapi_apps[0]["app"])
print(json.dumps({
    "errors": errors,
    "stray": [name for name in ("app", "routes", "rights", "assets") if name in sys.modules],
    "heavy": loaded,
    "views": {view["destination"]: view["href"] for view in ours.external_views},
    "statuses": [
        client.get(path, headers=headers).status_code
        for path in ("/", "/assets/main.js", "/api/jobs", "/api/jobs/x")
        for headers in ({}, {"Authorization": "Bearer not.a.token"}, {"Cookie": "_token=x"})
    ],
}))
"""


def test_the_plugin_loads_alone_builds_its_app_on_request_and_refuses_without_a_login(
    run_python: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__PLUGINS_FOLDER", str(ROOT / "plugins"))
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS", "False")
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://airflow.example/base/")
    found = json.loads(run_python(PROGRAM).splitlines()[-1])
    assert (found["errors"], found["stray"], found["heavy"]) == ({}, [], False)
    assert found["views"] == {
        "nav": "/base/ballast/",
        "dag": "/base/ballast/?dag={DAG_ID}",
        "dag_run": "/base/ballast/?dag={DAG_ID}&run={RUN_ID}",
    }
    assert found["statuses"] == [401, 403, 403] * 4
