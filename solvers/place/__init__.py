"""Placement of load: the methods of [AUTODASP17] and [DODO], their exact model, and a hash ring."""

from __future__ import annotations

from collections.abc import Mapping

from solvers.model.method import RebalanceMethod, by_name
from solvers.place.clb import METHOD as CLB
from solvers.place.clb import clb
from solvers.place.cluster_mapping import dynamic_mapping, static_mapping
from solvers.place.dynamic_mapping_plan import METHOD as DYNAMIC_MAPPING
from solvers.place.elb import METHOD as ELB
from solvers.place.elb import SubstreamPlacement, elb
from solvers.place.hash_placement import METHOD as HASH
from solvers.place.hash_ring import HashRing
from solvers.place.least_state_moved import least_state_moved
from solvers.place.level_estimate import estimate_level
from solvers.place.load_components import with_load_components
from solvers.place.mclb import METHOD as MCLB
from solvers.place.mclb import ParetoPoint, mclb, pareto_front
from solvers.place.ring_placement import METHOD as RING
from solvers.place.static_mapping_plan import METHOD as STATIC_MAPPING
from solvers.place.windowed_problem import over_windows

METHODS: Mapping[str, RebalanceMethod] = by_name(ELB, CLB, MCLB, STATIC_MAPPING, DYNAMIC_MAPPING)
PLACEMENTS: Mapping[str, RebalanceMethod] = by_name(HASH, RING, STATIC_MAPPING)
"""Methods that place everything from scratch."""

__all__ = [
    "METHODS",
    "PLACEMENTS",
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
