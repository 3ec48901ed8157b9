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
    """Who is asking, and what they may see."""

    @property
    def login(self) -> Any:
        """A dependency that refuses a request without a good login."""

    def may_see(self, request: Request, job: str) -> bool:
        """Whether they may see the plans of a job."""


def build_app(cache: TableCache, rights: Rights) -> FastAPI:
    """The app, for ``AirflowPlugin.fastapi_apps``, which mounts it bare: nothing guards it but
    itself."""
    app = FastAPI(
        title="Ballast review page",
        # These would answer without a login.
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
    """Beside the start of the server, which does not wait for it."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        threading.Thread(target=_read_ahead, args=(cache,), daemon=True).start()
        yield

    return lifespan


def _read_ahead(cache: TableCache) -> None:
    try:
        read_ahead(cache)
    except BallastError as error:
        # The page says the same to whoever opens it.
        log.warning("%s", error)


def _send(request: Request, asset: Asset) -> Response:
    headers = {"etag": asset.tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == asset.tag:
        return Response(status_code=304, headers=headers)
    return Response(asset.content, media_type=asset.type, headers=headers)
