"""Kafka consumer groups: a partition is a key group, a member is a node.

A consumer needs ``GroupMember`` and ``connection_settings``; see docs/engine-kafka.md. Needs the
extra ``kafka``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ballast.engines.kafka.connection import connection_settings
    from ballast.engines.kafka.member import GroupMember

__all__ = ["GroupMember", "connection_settings"]

_HOME = {
    "GroupMember": "ballast.engines.kafka.member",
    "connection_settings": "ballast.engines.kafka.connection",
}


def __getattr__(name: str) -> Any:
    # The registry of engines looks here without kafka-python.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
