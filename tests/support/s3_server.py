"""A small S3 server in memory: with conditional put or without, and with a clock of its own.

It speaks as much of the protocol as delta-rs uses for a table, and checks no signatures.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "bucket"
ROOT = Path(__file__).resolve().parents[2]


@dataclass
class ObjectStore:
    """The objects by their keys, and how the server behaves."""

    has_conditional_put: bool = True
    ahead_s: float = 0.0
    """How far the server's clock is ahead."""
    objects: dict[str, tuple[bytes, float]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, key: str, body: bytes, *, only_if_new: bool) -> bool:
        """Store an object; with conditional put, not over another one."""
        if only_if_new and not self.has_conditional_put:
            # Another writer may have looked as well before this one writes.
            time.sleep(0.05)
        with self.lock:
            if only_if_new and self.has_conditional_put and key in self.objects:
                return False
            self.objects[key] = (body, time.time() + self.ahead_s)
            return True


class ObjectHandler(BaseHTTPRequestHandler):
    """Answers requests for one bucket, by path: /bucket/key."""

    protocol_version = "HTTP/1.1"
    store: ObjectStore

    def log_message(self, *_args: object) -> None:
        """Print nothing."""

    @property
    def key(self) -> str:
        return unquote(urlsplit(self.path).path).removeprefix(f"/{BUCKET}").lstrip("/")

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        only_if_new = self.headers.get("If-None-Match") == "*"
        if self.store.put(self.key, body, only_if_new=only_if_new):
            self.answer(200, b"", {"ETag": _etag(body)})
        else:
            self.error(412, "PreconditionFailed")

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        if "list-type" in query:
            prefix, after = (query.get(name, [""])[0] for name in ("prefix", "start-after"))
            self.answer(200, self.listing(prefix, after, has_delimiter="delimiter" in query))
        elif self.key not in self.store.objects:
            self.error(404, "NoSuchKey")
        else:
            self.send_object()

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_DELETE(self) -> None:
        self.store.objects.pop(self.key, None)
        self.answer(204, b"")

    def do_POST(self) -> None:
        """Delete several objects."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        keys = [part.split("</Key>")[0] for part in body.split("<Key>")[1:]]
        for key in keys:
            self.store.objects.pop(unquote(key), None)
        deleted = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
        self.answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())

    def send_object(self) -> None:
        body, at = self.store.objects[self.key]
        headers = {"ETag": _etag(body), "Last-Modified": formatdate(at, usegmt=True)}
        wanted = self.headers.get("Range")
        if wanted is None:
            self.answer(200, body, headers)
            return
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        start = int(first) if first else max(0, len(body) - int(last))
        end = min(len(body), int(last) + 1) if first and last else len(body)
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(body)}"
        self.answer(206, body[start:end], headers)

    def listing(self, prefix: str, after: str, *, has_delimiter: bool) -> bytes:
        with self.store.lock:
            every = sorted(self.store.objects.items())
        found = {key: value for key, value in every if key.startswith(prefix) and key > after}
        rows, folders = [], set()
        for key, (body, at) in found.items():
            below = key[len(prefix) :]
            if has_delimiter and "/" in below:
                folders.add(prefix + below.split("/")[0] + "/")
                continue
            when = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(at))
            rows.append(
                f"<Contents><Key>{escape(key)}</Key><LastModified>{when}</LastModified>"
                f"<ETag>{escape(_etag(body))}</ETag><Size>{len(body)}</Size></Contents>"
            )
        rows += [
            f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>"
            for each in sorted(folders)
        ]
        return (
            f"<ListBucketResult><Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix>"
            f"<IsTruncated>false</IsTruncated>{''.join(rows)}</ListBucketResult>"
        ).encode()

    def error(self, status: int, code: str) -> None:
        self.answer(status, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode())

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def s3_server(*, has_conditional_put: bool = True, ahead_s: float = 0.0) -> Iterator[str]:
    """Start a server in a process of its own, and give its address.

    It is a process because delta-rs holds the interpreter's lock in some of its calls: a thread of
    the client could not answer.
    """
    options = [] if has_conditional_put else ["--no-conditional-put"]
    command = [sys.executable, "-m", "tests.support.s3_server", "--ahead", str(ahead_s), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.communicate()


def client_variables(url: str) -> dict[str, str]:
    """The variables of a client of the server."""
    return {
        "AWS_ENDPOINT_URL": url, "AWS_ALLOW_HTTP": "true", "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1",
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
    }  # fmt: skip


def stored_keys(url: str) -> list[str]:
    """The keys of all objects."""
    with urllib.request.urlopen(f"{url}/{BUCKET}?list-type=2") as answer:
        return re.findall("<Key>(.*?)</Key>", answer.read().decode())


def main() -> None:
    """Print the port and serve until killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--no-conditional-put", action="store_true")
    parser.add_argument("--ahead", type=float, default=0.0)
    args = parser.parse_args()
    ObjectHandler.store = ObjectStore(not args.no_conditional_put, args.ahead)
    server = ThreadingHTTPServer(("127.0.0.1", 0), ObjectHandler)
    print(server.server_port, flush=True)
    server.serve_forever()


def _etag(body: bytes) -> str:
    return f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'


if __name__ == "__main__":
    main()
