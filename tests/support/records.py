"""Records of any table, with defaults for all fields that a test does not set."""

from __future__ import annotations

from typing import Any

from ballast.contracts.records import DraftSummary
from tests.support.rows import row_of

NULL_FIGURES = (
    "due_moves", "collocation_factor_before_pct", "collocation_factor_pct", "scaling_reason",
    "weights_reason", "trade", "traffic_saved_pct", "traffic_saved_before_pct", "skew_reason",
    "splits_reason", "unsplit_bound_pct",
    "levelled_operator_id", "operator_skew_before_pct", "operator_skew_pct", "levelling_limit_pct",
    "collocation_bound_pct",
    "rules", "restored_rules", "rules_text", "headroom_limit_pct", "headroom_before_pct",
    "headroom_pct",
)  # fmt: skip


def draft_summary(**figures: Any) -> DraftSummary:
    """A plan whose optional figures are None unless given."""
    return DraftSummary.from_row(row_of("plans.plans", **(dict.fromkeys(NULL_FIGURES) | figures)))
