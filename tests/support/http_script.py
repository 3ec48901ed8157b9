"""A real HTTP server on the loopback interface with scripted responses; it records requests."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Script(ThreadingHTTPServer):
    """Responses for each "METHOD path", in order, as (status, body) pairs; the last one is
    repeated."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: dict[str, list[tuple[int, Any]]] = {
            "POST /auth/token": [(201, {"access_token": "t1"}), (201, {"access_token": "t2"})]
        }
        self.seen: list[tuple[str, str | None, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def requests(self) -> list[str]:
        """The requests that were received, in order."""
        return [request for request, _, _ in self.seen]

    def answer(self, request: str) -> tuple[int, Any]:
        queue = self.answers.get(request, [(404, {"detail": "not found"})])
        return queue.pop(0) if len(queue) > 1 else queue[0]


class Handler(BaseHTTPRequestHandler):
    server: Script

    def handle_any(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        request = f"{self.command} {self.path}"
        self.server.seen.append((request, self.headers.get("Authorization"), body))
        status, answer = self.server.answer(request)
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", answer)
        self.end_headers()
        self.wfile.write(
            answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
        )

    do_GET = do_POST = do_PATCH = handle_any  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@contextmanager
def serving() -> Iterator[Script]:
    """Serve a script while the block runs."""
    server = Script()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
