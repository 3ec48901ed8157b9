"""The FastAPI app: one page, its files and its JSON, all behind a login; it only reads."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

from fastapi import Depends, FastAPI, HTTPException, Request, Response

from ballast.contracts.errors import BallastError
from ballast.readmodel.plans import read_ahead
from ballast.store.cache import TableCache
from plugins.review.assets import Asset, load_assets
from plugins.review.headers import SecurityHeaders
from plugins.review.json_response import ReviewJsonResponse, explain
from plugins.review.routes import job_routes, jobs_route

log = logging.getLogger(__name__)


class Rights(Protocol):
    """The user of a request and their rights."""

    @property
    def login(self) -> Any:
        """A dependency that refuses a request without a valid login."""

    def may_see(self, request: Request, job: str) -> bool:
        """Return whether the user may see the plans of a job."""


def build_app(cache: TableCache, rights: Rights) -> FastAPI:
    """Make the app for ``AirflowPlugin.fastapi_apps``.

    Airflow adds no authentication to such an app, so every route checks the login.

    Args:
        cache: The tables that the page reads.
        rights: Checks logins, and which jobs a user may see.
    """
    app = FastAPI(
        title="Ballast review page",
        # These routes would not require a login.
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        dependencies=[Depends(rights.login)],
        default_response_class=ReviewJsonResponse,
        lifespan=_lifespan(cache),
    )
    app.add_middleware(SecurityHeaders)
    app.add_exception_handler(BallastError, explain)
    assets = load_assets()
    page = assets.pop("index.html")

    @app.get("/", include_in_schema=False)
    def index(request: Request) -> Response:
        return _send(request, page)

    @app.get("/assets/{name}", include_in_schema=False)
    def asset(request: Request, name: str) -> Response:
        if name not in assets:
            raise HTTPException(404, "there is no such file")
        return _send(request, assets[name])

    app.include_router(jobs_route(cache, rights.may_see))
    app.include_router(job_routes(cache, rights.may_see))
    return app


def _lifespan(cache: TableCache) -> Any:
    """Read the tables in a thread while the server starts."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        threading.Thread(target=_read_ahead, args=(cache,), daemon=True).start()
        yield

    return lifespan


def _read_ahead(cache: TableCache) -> None:
    try:
        read_ahead(cache)
    except BallastError as error:
        # The page shows the same error.
        log.warning("%s", error)


def _send(request: Request, asset: Asset) -> Response:
    headers = {"etag": asset.tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == asset.tag:
        return Response(status_code=304, headers=headers)
    return Response(asset.content, media_type=asset.type, headers=headers)
