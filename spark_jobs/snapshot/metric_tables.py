"""Names of the tables of metrics that ``condense`` validates."""

from __future__ import annotations

KEY_GROUPS = "metrics.key_groups"
NODES = "metrics.nodes"
TRAFFIC = "metrics.traffic"
KEY_PAIRS = "metrics.key_pairs"
SOURCES = "metrics.sources"
CONNECTIONS = "metrics.connections"
