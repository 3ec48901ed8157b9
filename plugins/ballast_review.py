"""Puts the review page into the Airflow UI: in the navigation, on a DAG and on a DAG run.

Every Airflow process loads this file, so imports are done when the API server uses the plugin.
"""

from __future__ import annotations

from functools import cache
from typing import Any
from urllib.parse import urlsplit

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

from plugins.review.cross_site import CrossSiteGuard, origins

PREFIX = "/ballast"
ROOT_PATH = urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")
PAGE = f"{ROOT_PATH}{PREFIX}/"


@cache
def _apps() -> list[dict[str, Any]]:
    from ballast.contracts.settings import load_settings
    from ballast.store.cache import TableCache
    from plugins.review.app import build_app
    from plugins.review.rights import AirflowRights

    app = build_app(TableCache(load_settings()), AirflowRights())
    return [{"app": app, "url_prefix": PREFIX, "name": "Ballast review page"}]


class _LazyAttribute:
    """An attribute that is computed on first access."""

    def __get__(self, _plugin: object, _of: type | None = None) -> list[dict[str, Any]]:
        return _apps()


def _own_origins() -> frozenset[str]:
    """Return the origins whose pages may write: Airflow's own and those of its CORS settings."""
    named = conf.get("api", "access_control_allow_origins", fallback="").split()
    return origins([conf.get("api", "base_url", fallback=""), *named])


class BallastReview(AirflowPlugin):
    """The review page."""

    name = "ballast_review"
    fastapi_apps = _LazyAttribute()
    fastapi_root_middlewares = [  # noqa: RUF012 - Airflow's own form
        {
            "middleware": CrossSiteGuard,
            "args": [],
            "kwargs": {"allowed": _own_origins()},
            "name": "Ballast: no writes from other sites",
        }
    ]
    external_views = [  # noqa: RUF012
        {
            "name": "Ballast",
            "href": PAGE,
            "destination": "nav",
            "url_route": "ballast",
            "nav_top_level": True,
        },
        {
            "name": "Plans",
            "href": f"{PAGE}?dag={{DAG_ID}}",
            "destination": "dag",
            "url_route": "ballast_dag",
        },
        {
            "name": "Plan",
            "href": f"{PAGE}?dag={{DAG_ID}}&run={{RUN_ID}}",
            "destination": "dag_run",
            "url_route": "ballast_run",
        },
    ]
