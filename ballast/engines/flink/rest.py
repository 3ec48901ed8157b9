"""Calls Flink's REST API, with time-outs and retries. Every call may be repeated."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from ballast.contracts.errors import BallastError, SettingsError
from ballast.engines.flink.connection import FlinkConnection

TRIES = 3
WAIT_S = 0.5
LARGEST_ANSWER = 64 * 2**20
MOST_SHOWN = 300
NO_RIGHT = (401, 403)


class FlinkUnavailable(BallastError):
    """The cluster does not answer, or answers with something else than JSON; later it may."""


class FlinkRefusal(BallastError):
    """The cluster refuses a request, and says why."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class RestClient:
    """The REST API of one cluster.

    Args:
        connection: where it is and how to log in.
    """

    def __init__(self, connection: FlinkConnection) -> None:
        self._connection = connection
        # Without proxies of the environment: the address is that of the cluster or of its proxy.
        no_proxy = urllib.request.ProxyHandler({})
        handlers: list[urllib.request.BaseHandler] = [no_proxy, _RefusedRedirect()]
        if connection.url.startswith("https:"):
            handlers.append(urllib.request.HTTPSHandler(context=_context(connection)))
        self._opener = urllib.request.build_opener(*handlers)

    def get(self, path: str) -> Any:
        """What the cluster answers to a GET.

        Raises:
            FlinkUnavailable: it does not answer.
            FlinkRefusal: it answers with an error.
        """
        return self._call("GET", path, None)

    def put(self, path: str, body: Mapping[str, Any]) -> Any:
        """What the cluster answers to a PUT; errors are those of :meth:`get`."""
        return self._call("PUT", path, json.dumps(body).encode())

    def _call(self, method: str, path: str, data: bytes | None) -> Any:
        for tried in range(1, TRIES + 1):
            try:
                return self._once(method, path, data)
            except FlinkUnavailable:
                if tried == TRIES:
                    raise
                time.sleep(WAIT_S * tried)
        raise AssertionError("the last try returns or raises")

    def _once(self, method: str, path: str, data: bytes | None) -> Any:
        url = self._connection.url
        # The connection allows http and https alone.
        request = urllib.request.Request(url + path, data=data, method=method)  # noqa: S310
        request.add_header("Content-Type", "application/json")
        for name, value in self._login().items():
            # Not sent to another address that a proxy may point at.
            request.add_unredirected_header(name, value)
        try:
            with self._opener.open(request, timeout=self._connection.timeout_s) as answer:
                text = answer.read(LARGEST_ANSWER + 1)
        except urllib.error.HTTPError as error:
            raise self._refusal(method, path, error) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise FlinkUnavailable(
                f"Flink at {url} does not answer {method} {path}: {type(error).__name__}: {reason}"
            ) from None
        return self._parsed(path, text)

    def _parsed(self, path: str, text: bytes) -> Any:
        if len(text) > LARGEST_ANSWER:
            raise FlinkUnavailable(f"the answer to {path} has more than {LARGEST_ANSWER} bytes")
        if not text.strip():
            return {}
        try:
            return json.loads(text)
        except ValueError:
            raise FlinkUnavailable(
                f"what answers {path} at {self._connection.url} is not Flink's REST API: no JSON"
            ) from None

    def _refusal(self, method: str, path: str, error: urllib.error.HTTPError) -> BallastError:
        if error.code in NO_RIGHT:
            return SettingsError(
                f"Flink at {self._connection.url} answers {method} {path} with {error.code}",
                remedy="correct the login in the settings of the connection",
            )
        reason = _reason_in(error)
        if error.code >= 500 and error.code != 501:
            return FlinkUnavailable(f"{method} {path} failed with {error.code}: {reason}")
        return FlinkRefusal(f"{method} {path} is refused with {error.code}: {reason}", error.code)

    def _login(self) -> dict[str, str]:
        connection = self._connection
        if connection.token:
            return {"Authorization": f"Bearer {connection.token}"}
        if connection.username and connection.password:
            pair = f"{connection.username}:{connection.password}".encode()
            return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
        return {}


class _RefusedRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an answer of its own: a login page is not Flink."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _context(connection: FlinkConnection) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=connection.ssl_cafile)
        if connection.ssl_certfile:
            context.load_cert_chain(
                connection.ssl_certfile, connection.ssl_keyfile, connection.ssl_password
            )
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(
            f"the certificates of the connection cannot be used ({type(error).__name__})",
            remedy="check ssl_cafile, ssl_certfile, ssl_keyfile and ssl_password",
        ) from None
    return context


def _reason_in(error: urllib.error.HTTPError) -> str:
    """The first line of what Flink says; it answers with a list of errors and stack traces."""
    try:
        text = error.read(LARGEST_ANSWER).decode(errors="replace")
        parts = [str(part) for part in json.loads(text)["errors"]]
    except (OSError, ValueError, KeyError, TypeError):
        return "no reason"
    lines = [line.strip() for part in parts for line in part.splitlines() if line.strip()]
    shown = next((line for line in lines if "Exception: " in line or len(line) > 1), "no reason")
    return shown[:MOST_SHOWN]
