"""Stateless ordered regions: their section of the policy, and the weights of their workers.

A region is one splitter, some workers and an in-order merge ([MW16-REGIONS]). Its weights are whole
units of 0.1 % that add up to 1,000.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from ballast.contracts.strict_model import StrictModel

if TYPE_CHECKING:
    # records imports tables, and tables imports this module.
    from ballast.contracts.records import WorkerWeight

UNITS = 1000
"""R of [MW16-REGIONS]: the weights of a region add up to it."""
ALIVE, DEAD, UNMEASURED = "alive", "dead", "unmeasured"
CONNECTION_STATES = (ALIVE, DEAD)
WORKER_STATES = (ALIVE, DEAD, UNMEASURED)
BLOCKING = "blocking"

Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,62}$")]
Units = Annotated[int, Field(strict=True, ge=0, le=UNITS)]


def _number_or_names(value: Any) -> str:
    """Select the variant by its type, so that an error names one variant."""
    return "names" if isinstance(value, list | tuple) else "number"


Workers = Annotated[
    Annotated[int, Field(strict=True, ge=1, le=UNITS), Tag("number")]
    | Annotated[tuple[Name, ...], Field(min_length=1, max_length=UNITS), Tag("names")],
    Discriminator(_number_or_names),
]
Weighted = tuple[str, str, int]
"""The content of a row of plans.weights: region, worker, units."""


class RegionPolicy(StrictModel):
    """An ordered region of the job, and how plans may change the weights of its workers."""

    id: Name
    workers: Workers
    """The number of workers (named worker-0, worker-1, ...), or their names."""
    method: Literal["service", "blocking"] = "service"
    """Weights by the service rate of each worker (ADR 38), or by blocking ([MW16-REGIONS])."""
    min_units: Units = 1
    """The least weight of a living worker. With 0 a slow worker may get no records, and is then
    measured again only if a local loop tries it."""
    max_change_units: Annotated[int, Field(strict=True, ge=1, le=UNITS)] = UNITS
    """The most that one plan may change a worker's weight."""
    min_gain_pct: Annotated[float, Field(strict=True, ge=0, le=1e6, allow_inf_nan=False)] = 5.0
    """The least gain that changes weights: percent more throughput of the region (service), or
    percent of the time less blocking of the connection that blocks most (blocking)."""
    local_change_units: Units = UNITS
    """The most that a local loop may move a weight away from the plan in force."""

    @model_validator(mode="after")
    def _check_consistency(self) -> RegionPolicy:
        twice = [name for name, count in Counter(self.worker_ids).items() if count > 1]
        if twice:
            raise ValueError(f"region {self.id!r} has two workers called {twice[0]!r}")
        if self.min_units * len(self.worker_ids) > UNITS:
            raise ValueError(
                f"region {self.id!r}: min_units is {self.min_units} for each of "
                f"{len(self.worker_ids)} workers, {UNITS} units in all; lower it"
            )
        return self

    @property
    def worker_ids(self) -> tuple[str, ...]:
        """Names of the workers, in order."""
        return worker_names(self.workers)


def worker_names(workers: int | Sequence[str]) -> tuple[str, ...]:
    """The given names, or worker-0, worker-1, ... for a number."""
    if isinstance(workers, int):
        return tuple(f"worker-{index}" for index in range(workers))
    return tuple(workers)


def check_regions(regions: Sequence[RegionPolicy], operators: Sequence[str]) -> None:
    """Raise ValueError where two regions, or a region and an operator, share a name."""
    names = [region.id for region in regions]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"regions: {twice!r} is given twice; names must be unique")
    both = next((name for name in names if name in operators), None)
    if both is not None:
        raise ValueError(f"regions: {both!r} is an operator as well; give the region another name")


def weighted(rows: Iterable[WorkerWeight]) -> list[Weighted]:
    """The part of plans.weights that belongs to a plan's content: no reasons and no figures."""
    return [(row.region_id, row.worker_id, row.weight) for row in rows]


def weights_of(rows: Iterable[Weighted], region_id: str) -> dict[str, int]:
    """The weight of each worker of a region; empty where the plan has no weights for the region."""
    return {worker: units for region, worker, units in rows if region == region_id}


def even_units(workers: Sequence[str]) -> dict[str, int]:
    """Weights as even as whole units allow; the first workers get the remainder."""
    share, rest = divmod(UNITS, len(workers))
    return {name: share + (index < rest) for index, name in enumerate(workers)}
