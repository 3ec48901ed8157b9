"""Stateless ordered regions: what a policy says of them, and what a plan's weights are.

A region is one splitter, some workers and an in-order merge ([MW16-REGIONS]). Its weights are whole
units of 0.1 % that add up to 1,000.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from ballast.contracts.strict_model import StrictModel

UNITS = 1000
"""R of [MW16-REGIONS]: the weights of a region add up to it."""
ALIVE, DEAD, UNMEASURED = "alive", "dead", "unmeasured"
CONNECTION_STATES = (ALIVE, DEAD)
WORKER_STATES = (ALIVE, DEAD, UNMEASURED)
BLOCKING = "blocking"

Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,62}$")]
Units = Annotated[int, Field(strict=True, ge=0, le=UNITS)]


def _number_or_names(value: Any) -> str:
    """Which of the two was meant: an error then speaks of that one alone."""
    return "names" if isinstance(value, list | tuple) else "number"


Workers = Annotated[
    Annotated[int, Field(strict=True, ge=1, le=UNITS), Tag("number")]
    | Annotated[tuple[Name, ...], Field(min_length=1, max_length=UNITS), Tag("names")],
    Discriminator(_number_or_names),
]
Weighted = tuple[str, str, int]
"""What a row of plans.weights says: region, worker, units."""


class RegionPolicy(StrictModel):
    """An ordered region beside the job's keyed operators, and how plans may weigh its workers."""

    id: Name
    workers: Workers
    """How many workers it has, which are worker-0 and so on, or their names."""
    method: Literal["service", "blocking"] = "service"
    """By what each worker truly does (ADR 0038), or by who blocks ([MW16-REGIONS])."""
    min_units: Units = 1
    """Least weight of a worker that lives; with 0 one that is too slow gets nothing, and is
    measured again only where a local loop tries it."""
    max_change_units: Annotated[int, Field(strict=True, ge=1, le=UNITS)] = UNITS
    """Most that a worker's weight may rise or fall by one plan."""
    min_gain_pct: Annotated[float, Field(strict=True, ge=0, le=1e6, allow_inf_nan=False)] = 5.0
    """Weights are changed where the region can then take so many percent more (service), or where
    the connection that blocks most does so for so many percent of the time less (blocking)."""
    local_change_units: Units = UNITS
    """How far a local loop may take a weight from that of the plan in force."""

    @model_validator(mode="after")
    def _hangs_together(self) -> RegionPolicy:
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
    """The names as given, or worker-0 and so on."""
    if isinstance(workers, int):
        return tuple(f"worker-{index}" for index in range(workers))
    return tuple(workers)


def check_regions(regions: Sequence[RegionPolicy], operators: Sequence[str]) -> None:
    """Raise where a name is used twice."""
    names = [region.id for region in regions]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"regions: {twice!r} is there twice; names must be unique")
    both = next((name for name in names if name in operators), None)
    if both is not None:
        raise ValueError(f"regions: {both!r} is an operator as well; give the region another name")


def weighted(rows: Iterable[Any]) -> list[Weighted]:
    """What rows of plans.weights say, without the reasons."""
    return [(r["region_id"], r["worker_id"], r["weight"]) for r in rows]


def weights_of(rows: Iterable[Weighted], region_id: str) -> dict[str, int]:
    """Units of each worker of a region; empty where the plan does not weigh it."""
    return {worker: units for region, worker, units in rows if region == region_id}


def even_units(workers: Sequence[str]) -> dict[str, int]:
    """As even as whole units can be, the first workers one more."""
    share, rest = divmod(UNITS, len(workers))
    return {name: share + (index < rest) for index, name in enumerate(workers)}
