"""``ballast gauges``: gauges of jobs for Prometheus, once or as a server."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import FrameType

from ballast.cli.progress import print_message
from ballast.contracts.errors import BallastError, InvalidInput
from ballast.contracts.settings import check_job_name, load_settings
from ballast.readmodel.gauges import job_gauges, prometheus_text
from ballast.readmodel.job_history import JobHistory, known_jobs
from ballast.store.cache import TableCache

PATH = "/metrics"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "gauges",
        help="gauges of jobs for Prometheus",
        description="Print gauges of jobs in the text format of Prometheus, or serve them.",
        epilog="example: ballast gauges --listen 127.0.0.1:9310",
    )
    parser.add_argument("jobs", metavar="JOB", nargs="*", help="default: every job")
    parser.add_argument(
        "--listen", metavar="HOST:PORT", help=f"serve them at {PATH} until stopped, without a login"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the gauges, or serve them until SIGTERM or Ctrl-C."""
    source = GaugeSource(TableCache(load_settings()), [check_job_name(job) for job in args.jobs])
    if args.listen is None:
        sys.stdout.write(source.text())
        return 0
    server = make_server(source, *_address(args.listen))

    def stop(_number: int, _frame: FrameType | None) -> None:
        threading.Thread(target=server.shutdown).start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    print_message(f"gauges at http://{server.server_address[0]!s}:{server.server_port}{PATH}")
    with server:
        server.serve_forever()
    return 0


class GaugeSource:
    """Reads the gauges of jobs; no job means every job that is known when they are read."""

    def __init__(self, cache: TableCache, jobs: Sequence[str]) -> None:
        self.cache, self.jobs = cache, jobs

    def text(self) -> str:
        """The gauges of now.

        Raises:
            BallastError: a table cannot be read.
        """
        now = datetime.now(UTC)
        jobs = self.jobs or known_jobs(self.cache)
        return prometheus_text(
            value for job in jobs for value in job_gauges(JobHistory(self.cache, job), now)
        )


def make_server(source: GaugeSource, host: str, port: int) -> ThreadingHTTPServer:
    """A server of the gauges, which listens already.

    Raises:
        InvalidInput: the address cannot be used.
    """
    handler = type("GaugeHandler", (_Handler,), {"source": source})
    try:
        return ThreadingHTTPServer((host, port), handler)
    except OSError as error:
        raise InvalidInput(
            f"--listen {host}:{port} cannot be used: {error.strerror or error}", value=port,
            remedy="choose an address of this host with a free port",
        ) from error  # fmt: skip


class _Handler(BaseHTTPRequestHandler):
    source: GaugeSource

    def do_GET(self) -> None:
        if self.path != PATH:
            self._answer(404, f"only {PATH} is here\n")
            return
        try:
            self._answer(200, self.source.text())
        except (BallastError, OSError) as error:
            # Prometheus takes this for a target that is down, and no old value is shown.
            print_message(f"ballast: {error}")
            self._answer(503, "the tables cannot be read; see the log\n")

    def log_message(self, *_args: object) -> None:
        """Log nothing for requests that succeed."""

    def _answer(self, status: int, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise InvalidInput(
            f"--listen is {text!r}", value=text, allowed="HOST:PORT, such as 127.0.0.1:9310"
        )
    return host, int(port)
