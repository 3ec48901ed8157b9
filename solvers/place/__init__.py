"""Placement of load: the methods of [AUTODASP17] and [DODO], their exact model, and a hash ring."""

from __future__ import annotations

from solvers.place.clb import clb
from solvers.place.cluster_mapping import dynamic_mapping, static_mapping
from solvers.place.elb import SubstreamPlacement, elb
from solvers.place.hash_ring import HashRing
from solvers.place.least_state_moved import least_state_moved
from solvers.place.level_estimate import estimate_level
from solvers.place.load_components import with_load_components
from solvers.place.mclb import ParetoPoint, mclb, pareto_front
from solvers.place.windowed_problem import over_windows

__all__ = [
    "HashRing",
    "ParetoPoint",
    "SubstreamPlacement",
    "clb",
    "dynamic_mapping",
    "elb",
    "estimate_level",
    "least_state_moved",
    "mclb",
    "over_windows",
    "pareto_front",
    "static_mapping",
    "with_load_components",
]
