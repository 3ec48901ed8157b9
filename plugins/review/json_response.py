"""JSON responses of the page. An error says what was wrong, what is allowed and what to do."""

from __future__ import annotations

import json
import logging
from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse

from ballast.contracts.errors import BrokenTable, ContractMismatch, InvalidInput, NotFound
from ballast.contracts.json_values import json_value

log = logging.getLogger(__name__)


class ReviewJsonResponse(JSONResponse):
    """A JSON response whose times are in ISO 8601."""

    def render(self, content: Any) -> bytes:
        """Return the body of the response."""
        text = json.dumps(content, default=json_value, allow_nan=False, separators=(",", ":"))
        return text.encode()


def explain(_request: Request, error: Exception) -> Response:
    """Return the response to an error of Ballast; the page shows it."""
    if isinstance(error, BrokenTable):
        # The cause may have addresses of the storage, so it is logged and not shown.
        log.error("%s", error)
        problem = f"table {error.table} cannot be read"
        return ReviewJsonResponse(
            _body("broken_table", problem, None, error.remedy), status_code=503
        )
    if isinstance(error, ContractMismatch):
        return ReviewJsonResponse(
            _body("newer_table", error.problem, None, error.remedy), status_code=503
        )
    if isinstance(error, NotFound):
        return ReviewJsonResponse(_body("not_found", *_parts(error)), status_code=404)
    if isinstance(error, InvalidInput):
        return ReviewJsonResponse(_body("invalid", *_parts(error)), status_code=400)
    log.error("%s", error)
    return ReviewJsonResponse(
        _body("error", "this cannot be shown", None, "see the log"), status_code=500
    )


def _parts(error: InvalidInput) -> tuple[str, str | None, str | None]:
    return str(error).split("; ", 1)[0], error.allowed, error.remedy


def _body(kind: str, problem: str, allowed: str | None, remedy: str | None) -> dict[str, Any]:
    return {"kind": kind, "problem": problem, "allowed": allowed, "remedy": remedy}
