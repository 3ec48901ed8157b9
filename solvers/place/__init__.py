"""Placing load: the methods of [AUTODASP17] and [DODO], their exact model, and consistent
hashing.
"""

from __future__ import annotations

from solvers.place.clb import clb
from solvers.place.clusters import dynamic_mapping, static_mapping
from solvers.place.elb import SubstreamPlacement, elb
from solvers.place.least import least_moved
from solvers.place.level import level_of
from solvers.place.mclb import ParetoPoint, mclb, pareto_front
from solvers.place.ring import Ring
from solvers.place.robust import over_windows
from solvers.place.swings import with_swings

__all__ = [
    "ParetoPoint",
    "Ring",
    "SubstreamPlacement",
    "clb",
    "dynamic_mapping",
    "elb",
    "least_moved",
    "level_of",
    "mclb",
    "over_windows",
    "pareto_front",
    "static_mapping",
    "with_swings",
]
