"""Collocate what talks to each other, while load stays level: one file per method.

``METHODS`` have the shape of every solver; ``joint.plan`` also hands back the target that the next
round needs. Routing by key is in ``keys``, advice on whole operators in ``components``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from solvers.collocate import albic, cola, joint
from solvers.model.result import Result

METHODS: Mapping[str, Callable[..., Result]] = {
    joint.NAME: joint.solve,
    albic.NAME: albic.solve,
    cola.NAME: cola.solve,
}
