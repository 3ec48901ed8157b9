"""The JSON routes: the read model of a job, for users who may see the job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Query, Request

from ballast.contracts.errors import InvalidInput
from ballast.contracts.json_values import json_value
from ballast.contracts.settings import check_job_name
from ballast.readmodel.changes import node_difference, route_difference, weight_difference
from ballast.readmodel.job_history import JobHistory, find_plan, known_jobs, plan_of_run
from ballast.readmodel.moves import MoveFilter, moves_page
from ballast.readmodel.noise import job_noise
from ballast.readmodel.placement import difference, node_loads, node_traffic
from ballast.readmodel.plans import (
    job_summary,
    unpublished_drafts,
    version_summaries,
)
from ballast.readmodel.promises import promise_counts
from ballast.store.cache import TableCache
from ballast.store.paging import Key
from plugins.review.json_response import ReviewJsonResponse
from plugins.review.page_json import (
    draft_json,
    job_json,
    move_json,
    node_loads_json,
    noise_json,
    plan_json,
    planning_json,
    promises_json,
    version_json,
)

MaySee = Callable[[Request, str], bool]
Name = Annotated[str | None, Query(min_length=1, max_length=300)]
Against = Annotated[str, Query(max_length=40)]
Limit = Annotated[int, Query(ge=1, le=500)]
Offset = Annotated[int, Query(ge=0, le=100_000_000)]
MAX_DRAFTS = 20


def move_filter(operator: Name = None, from_node: Name = None, to_node: Name = None) -> MoveFilter:
    """The moves that a request asks for, by operator and nodes."""
    return MoveFilter(operator, from_node, to_node)


Filter = Annotated[MoveFilter, Depends(move_filter)]


def jobs_route(cache: TableCache, may_see: MaySee) -> APIRouter:
    """Make the route of all jobs that the user may see."""
    router = APIRouter()

    @router.get("/api/jobs")
    def jobs(request: Request) -> Any:
        visible = [job for job in known_jobs(cache) if may_see(request, job)]
        return ReviewJsonResponse(
            {"jobs": [job_json(job_summary(JobHistory(cache, job))) for job in visible]}
        )

    return router


def job_routes(cache: TableCache, may_see: MaySee) -> APIRouter:
    """Make the routes of one job; each checks its name and the user's right to see it."""

    def check(request: Request, job: str) -> None:
        if not may_see(request, check_job_name(job)):
            raise HTTPException(403, "Forbidden")

    router = APIRouter(prefix="/api/jobs/{job}", dependencies=[Depends(check)])

    @router.get("")
    def job_page(job: str) -> Any:
        history = JobHistory(cache, job)
        return ReviewJsonResponse(
            {
                "job": job_json(job_summary(history)),
                "versions": [version_json(summary) for summary in version_summaries(history)],
                "drafts": [draft_json(draft) for draft in unpublished_drafts(history, MAX_DRAFTS)],
                "promises": promises_json(promise_counts(history)),
            }
        )

    @router.get("/noise")
    def noise(job: str) -> Any:
        return ReviewJsonResponse(noise_json(job_noise(JobHistory(cache, job))))

    @router.get("/log")
    def log(job: str, offset: Offset = 0, limit: Limit = 100) -> Any:
        rows = JobHistory(cache, job).log[::-1]
        return ReviewJsonResponse({"rows": rows[offset : offset + limit], "total": len(rows)})

    @router.get("/run")
    def run(job: str, run_id: Annotated[str, Query(max_length=300)]) -> Any:
        history = JobHistory(cache, job)
        events = [entry for entry in history.log if entry.run_id == run_id]
        return ReviewJsonResponse(
            {
                "plan_id": plan_of_run(history, run_id),
                "log": events,
                "planning": planning_json(history.planning),
            }
        )

    _add_plan_routes(router, cache)
    return router


def _add_plan_routes(router: APIRouter, cache: TableCache) -> None:
    """Add the routes of a plan, by its version or its id."""

    @router.get("/plans/{plan}")
    def plan_page(job: str, plan: str) -> Any:
        return ReviewJsonResponse(plan_json(JobHistory(cache, job), plan))

    @router.get("/plans/{plan}/nodes")
    def nodes(job: str, plan: str) -> Any:
        return ReviewJsonResponse(node_loads_json(node_loads(JobHistory(cache, job), plan)))

    @router.get("/plans/{plan}/traffic")
    def traffic(job: str, plan: str) -> Any:
        return ReviewJsonResponse(node_traffic(JobHistory(cache, job), plan))

    @router.get("/plans/{plan}/moves")
    def moves(
        job: str,
        plan: str,
        wanted: Filter,
        order: Annotated[str, Query(max_length=20)] = "key",
        after: Annotated[str | None, Query(max_length=400)] = None,
        limit: Limit = 100,
    ) -> Any:
        history = JobHistory(cache, job)
        found = find_plan(history, plan)
        place = None if after is None else place_of(after, order)
        page = moves_page(history, found.plan_id, wanted, order, place, limit)
        rows_after = None if page.after is None else text_of(page.after)
        return ReviewJsonResponse(
            {"rows": [move_json(move) for move in page.rows], "after": rows_after}
        )

    @router.get("/plans/{plan}/difference")
    def differences(
        job: str,
        plan: str,
        against: Against,
        wanted: Filter,
        offset: Offset = 0,
        limit: Limit = 100,
    ) -> Any:
        return ReviewJsonResponse(
            difference(JobHistory(cache, job), against, plan, wanted, offset, limit)
        )

    @router.get("/plans/{plan}/node_difference")
    def differences_of_nodes(job: str, plan: str, against: Against) -> Any:
        history = JobHistory(cache, job)
        found = node_difference(history, against, plan)
        return ReviewJsonResponse(
            json_value(found) | {"weights": weight_difference(history, against, plan)}
        )

    @router.get("/plans/{plan}/route_difference")
    def differences_of_routes(job: str, plan: str, against: Against, limit: Limit = 100) -> Any:
        return ReviewJsonResponse(route_difference(JobHistory(cache, job), against, plan, limit))


def text_of(place: Key) -> str:
    """Return the end of a page as text for a link.

    Numbers come first, because an operator id may contain a dot.
    """
    operator, *numbers = sorted(place, key=lambda value: isinstance(value, int))
    return ".".join([*map(str, numbers), str(operator)])


def place_of(text: str, order: str) -> Key:
    """Parse the text of :func:`text_of`.

    Raises:
        InvalidInput: The text does not fit the order.
    """
    count = 2 if order == "bytes" else 1
    *numbers, operator = text.split(".", count)
    if len(numbers) != count or not all(n.isdecimal() and len(n) <= 15 for n in numbers):
        raise InvalidInput(
            "this page of moves does not exist", value=text, remedy="start at the first page"
        )
    *leading, key_group = map(int, numbers)
    return (*leading, operator, key_group)
