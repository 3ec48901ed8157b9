"""Collocate key groups that exchange records while the load stays level: one file per method.

``METHODS`` have the shape of the rebalance methods. ``joint.plan`` also returns the target that
the next round needs. Advice on whole operators is in ``component_advice``; routes for single keys
are in ``solvers.key_routing``.
"""

from __future__ import annotations

from collections.abc import Mapping

from solvers.collocate import albic, cola, component_placement, joint
from solvers.model.method import RebalanceMethod, by_name

METHODS: Mapping[str, RebalanceMethod] = by_name(joint.METHOD, albic.METHOD, cola.METHOD)
PLACEMENTS: Mapping[str, RebalanceMethod] = by_name(cola.METHOD, component_placement.METHOD)
"""Methods that place everything from scratch."""
