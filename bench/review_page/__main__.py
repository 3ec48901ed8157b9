"""How long each page and route of the review page takes: ``python -m bench.review_page``.

There are two jobs: one of 1,200 key groups and 100 versions, many of which change the nodes, and
one with a version of 1,000,000 assignments that all move, with as many keys that have a route.
Requests go through the whole app by its ASGI interface, in one process with a warm cache of the
small tables' files, as in an API server. The first request is shown separately. Airflow's login
check, whose time is the same for every route of Airflow, is left out.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fastapi import Request
from fastapi.testclient import TestClient

from ballast.contracts.settings import Settings, load_settings
from ballast.store.cache import TableCache
from bench.common.runner import short_parser
from bench.review_page.warehouse import SampleJob, job_policy, write_job
from plugins.review.app import build_app

LIMIT_MS = 300.0


class Everyone:
    """Rights of which every user may see every job, because the page alone is measured."""

    def login(self, request: Request) -> None:
        """Accept every request."""

    def may_see(self, request: Request, job: str) -> bool:  # noqa: ARG002
        """Allow every job."""
        return True


@dataclass(frozen=True)
class Timing:
    """Milliseconds and bytes of one route."""

    job: str
    route: str
    first: float
    median: float
    high: float
    kilobytes: float


def main() -> int:
    """Write the warehouse, time the routes, print the table."""
    parser = short_parser(__doc__)
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--versions", type=int, default=100)
    parser.add_argument("--home", type=Path, default=load_settings().home / "bench-review-page")
    args = parser.parse_args()
    settings = warehouse(args.home, args.versions)
    timings = list(measure(settings, args.versions, args.requests))
    print(table(timings))
    slow = [t for t in timings if t.job == "many" and t.high > LIMIT_MS]
    for timing in slow:
        print(f"OVER {LIMIT_MS:.0f} ms at the 95th percentile: {timing.route}")
    return 1 if slow else 0


def warehouse(home: Path, versions: int) -> Settings:
    """Both jobs, written once; the second run reads what the first one wrote."""
    done = home / "done"
    settings = load_settings({"BALLAST_HOME": str(home), "BALLAST_POLICIES": str(home / "none")})
    made_as = f"{versions} versions with nodes, routes, promises and usual loads"
    if done.exists() and done.read_text() == made_as:
        return settings
    shutil.rmtree(home, ignore_errors=True)
    began = time.monotonic()
    many = SampleJob(job_policy("many", 4, 300, 20, spares=2), per_version=20, routes=1000,
                     has_promises=True)  # fmt: skip
    write_job(settings, many, versions)
    million = SampleJob(
        job_policy("million", 10, 100_000, 100), per_version=1_000_000, routes=1_000_000
    )
    write_job(settings, million, 1, fan_out=1)
    print(f"wrote the warehouse in {time.monotonic() - began:.0f} s")
    done.write_text(made_as)
    return settings


def routes(versions: int) -> Iterator[tuple[str, str, str]]:
    """Job, name and address of every route that is timed."""
    yield "-", "page", "/"
    yield "-", "script", "/assets/uPlot.iife.min.js"
    yield "-", "jobs", "/api/jobs"
    for job, plan, other in (("many", versions, 1), ("million", 1, 0)):
        base = f"/api/jobs/{job}"
        yield job, "job", base
        yield job, "noise", f"{base}/noise"
        yield job, "log", f"{base}/log"
        yield job, "version", f"{base}/plans/{plan}"
        yield job, "load per node", f"{base}/plans/{plan}/nodes"
        yield job, "traffic", f"{base}/plans/{plan}/traffic"
        yield job, "difference", f"{base}/plans/{plan}/difference?against={other}"
        yield job, "difference of nodes", f"{base}/plans/{plan}/node_difference?against={other}"
        yield job, "difference of routes", f"{base}/plans/{plan}/route_difference?against={other}"
        moves = f"{base}/plans/{plan}/moves"
        yield job, "moves, first page", moves
        yield job, "moves, in the middle", f"{moves}?after=150.operator-2"
        yield job, "moves of an operator", f"{moves}?operator=operator-3"
        yield job, "moves to a node", f"{moves}?to_node=node-07"
        yield job, "moves, largest first", f"{moves}?order=bytes"


def measure(settings: Settings, versions: int, requests: int) -> Iterator[Timing]:
    """Time each route separately, after one request that fills the cache."""
    for job, name, url in routes(versions):
        # A new app has an empty cache: its first request reads every file.
        client = TestClient(build_app(TableCache(settings), Everyone()))
        first, size = timed(lambda client=client, url=url: client.get(url))
        count = requests if job != "million" else max(5, requests // 4)
        rest = [timed(lambda client=client, url=url: client.get(url))[0] for _ in range(count)]
        high = statistics.quantiles(rest, n=20, method="inclusive")[-1]
        yield Timing(job, name, first, statistics.median(rest), high, size / 1000)


def timed(action: Callable[[], object]) -> tuple[float, int]:
    """Milliseconds and bytes of a response."""
    began = time.perf_counter()
    answer = action()
    took = 1000 * (time.perf_counter() - began)
    assert answer.status_code == 200, answer.text  # type: ignore[attr-defined]
    return took, len(answer.content)  # type: ignore[attr-defined]


def table(timings: list[Timing]) -> str:
    """The timings as Markdown."""
    lines = [
        "| job | route | first request, ms | median, ms | 95th percentile, ms | kB |",
        "|---|---|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {t.job} | {t.route} | {t.first:.0f} | {t.median:.1f} | {t.high:.1f} "
        f"| {t.kilobytes:.1f} |"
        for t in timings
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
