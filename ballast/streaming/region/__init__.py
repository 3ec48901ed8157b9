"""A stateless ordered region on loopback TCP: a splitter, N workers, an in-order merge
([MW16-REGIONS]).

``OrderedRegion`` is all that a caller needs; see docs/streaming.md and ADR 0038.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ballast.contracts.regions import UNITS
    from ballast.streaming.region.follow import PlanFollower
    from ballast.streaming.region.measure import RegionMeasurement
    from ballast.streaming.region.processes import RegionFailed
    from ballast.streaming.region.region import OrderedRegion
    from ballast.streaming.region.settings import RegionSettings
    from ballast.streaming.region.shares import even_weights
    from ballast.streaming.region.write import WindowWriter

__all__ = [
    "UNITS",
    "OrderedRegion",
    "PlanFollower",
    "RegionFailed",
    "RegionMeasurement",
    "RegionSettings",
    "WindowWriter",
    "even_weights",
]

_HOME = {
    "UNITS": "shares",
    "OrderedRegion": "region",
    "PlanFollower": "follow",
    "RegionFailed": "processes",
    "RegionSettings": "settings",
    "RegionMeasurement": "measure",
    "WindowWriter": "write",
    "even_weights": "shares",
}


def __getattr__(name: str) -> Any:
    # A worker process imports this package and needs sockets alone; numpy would cost each time.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
