"""A stateless ordered region on loopback TCP: a splitter, N workers, an in-order merge.

From [MW16-REGIONS]. Callers use ``OrderedRegion``; see docs/streaming.md and ADR 38.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ballast.contracts.regions import UNITS
    from ballast.streaming.region.measurement import RegionMeasurement
    from ballast.streaming.region.metrics_writer import WindowWriter
    from ballast.streaming.region.plan_follower import PlanFollower
    from ballast.streaming.region.region import OrderedRegion
    from ballast.streaming.region.settings import RegionSettings
    from ballast.streaming.region.weights import even_weights
    from ballast.streaming.region.worker_processes import RegionFailed

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
    "UNITS": "weights",
    "OrderedRegion": "region",
    "PlanFollower": "plan_follower",
    "RegionFailed": "worker_processes",
    "RegionSettings": "settings",
    "RegionMeasurement": "measurement",
    "WindowWriter": "metrics_writer",
    "even_weights": "weights",
}


def __getattr__(name: str) -> Any:
    # A worker process imports this package and needs only sockets; importing numpy would take time.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
