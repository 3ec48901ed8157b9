"""Refuses writes that a page of another site sends with the user's login cookie (ADR 44).

Airflow accepts its login cookie from any origin. The check is applied to the whole API server,
because the buttons of the page call Airflow's own API. The rules are those of Go's
``http.CrossOriginProtection``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
# Name of Airflow's login cookie (airflow.api_fastapi.auth.managers.base_auth_manager).
LOGIN_COOKIE = "_token"
REFUSAL = {
    "detail": "This write came from another site and was refused. To fix it: use the page inside "
    "Airflow, or send the token in the Authorization header."
}


class CrossSiteGuard:
    """ASGI middleware that refuses unsafe requests with the login cookie from other sites."""

    def __init__(self, app: Any, allowed: frozenset[str] = frozenset()) -> None:
        self.app = app
        self.allowed = allowed

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and is_cross_site(
            scope["method"], _headers(scope), self.allowed
        ):
            await _refuse(send)
        else:
            await self.app(scope, receive, send)


def is_cross_site(method: str, headers: dict[str, str], allowed: frozenset[str]) -> bool:
    """Return whether a page of another site may have sent this request."""
    if method in SAFE_METHODS or not _is_by_cookie(headers):
        return False
    origin = headers.get("origin", "")
    if origin.lower() in allowed:
        return False
    # The browser sets this header, so proxies that change addresses do not matter.
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site not in ("same-origin", "none")
    # Every browser sends the origin of a write, so a request without one is from a program.
    return bool(origin) and urlsplit(origin).netloc.lower() != headers.get("host", "").lower()


def origins(addresses: Iterable[str]) -> frozenset[str]:
    """Return scheme, host and port of each address that has them."""
    parts = [urlsplit(address) for address in addresses]
    return frozenset(f"{p.scheme}://{p.netloc}".lower() for p in parts if p.scheme and p.netloc)


def _is_by_cookie(headers: dict[str, str]) -> bool:
    """Return whether the request is authenticated by the cookie only.

    Another site can send the cookie or a Basic login, but not a token.
    """
    if headers.get("authorization", "").lower().startswith("bearer "):
        return False
    # Parsed as Starlette does: http.cookies stops at the first malformed cookie.
    names = (part.partition("=")[0].strip() for part in headers.get("cookie", "").split(";"))
    return LOGIN_COOKIE in names


def _headers(scope: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        # A browser may send several cookie headers, but only one of each other header.
        found[name] = f"{found[name]};{value}" if name == "cookie" and name in found else value
    return found


async def _refuse(send: Any) -> None:
    body = json.dumps(REFUSAL).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": body})
