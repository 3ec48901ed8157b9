"""Headers of every response: only scripts, styles and data of this app may be loaded."""

from __future__ import annotations

from typing import Any

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        # The Airflow UI shows the page in a frame of its own origin.
        "frame-ancestors 'self'",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
# Plans must not be in a cache that several users share.
DEFAULTS = {"cache-control": "no-store"}


class SecurityHeaders:
    """ASGI middleware that adds the headers to every response, also to refusals."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": _completed(message.get("headers", []))}
            await send(message)

        await self.app(scope, receive, with_headers if scope["type"] == "http" else send)


def _completed(headers: Any) -> list[tuple[bytes, bytes]]:
    present = {name.lower() for name, _ in headers}
    added = HEADERS | {k: v for k, v in DEFAULTS.items() if k.encode() not in present}
    return [*headers, *((name.encode(), value.encode()) for name, value in added.items())]
