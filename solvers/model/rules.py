"""The rules that no plan of a job may break, by names of operators, key groups and nodes.

They are part of the problem. What a rule says of single key groups is also in the problem's arrays
``pinned`` and ``allowed`` (rule_masks.py), which every method keeps. The verifier reads the names.
"""

from __future__ import annotations

from dataclasses import dataclass

from ballast.contracts.policy import JobPolicy
from ballast.contracts.rules import HeadroomPolicy, LabelledNode, PlaceRulePolicy


@dataclass(frozen=True, slots=True)
class PlaceRule:
    """Key groups that may be on some nodes only, or that stay on their nodes."""

    name: str
    operators: frozenset[str]
    """All key groups of these operators."""
    key_groups: frozenset[str]
    """Names of single key groups."""
    nodes: frozenset[str] | None
    """The nodes that they may be on, also nodes that are not in use; None if they stay."""

    @property
    def stays(self) -> bool:
        """Whether the key groups stay on their nodes as long as these are not dead."""
        return self.nodes is None


@dataclass(frozen=True, slots=True)
class ApartRule:
    """Key groups of which no two may share a node or, with ``is_on_racks``, a rack."""

    name: str
    key_groups: tuple[str, ...]
    is_on_racks: bool = False


@dataclass(frozen=True, slots=True)
class MoveLimit:
    """How much of each of these operators one plan may move; None does not limit."""

    name: str
    operators: frozenset[str]
    moves: int | None = None
    bytes: int | None = None
    share: float | None = None
    """Of the key groups of the operator, rounded down."""


@dataclass(frozen=True, slots=True)
class HeadroomRule:
    """How full nodes may become when a node or a rack is lost (solvers/rules/failover.py)."""

    name: str
    loss_of: tuple[str, ...]
    """``node``, ``rack`` or both."""
    max_utilisation: float
    """Of a node that is left, in its fullest resource; 1.0 is full."""


@dataclass(frozen=True, slots=True)
class PlacementRules:
    """All rules of a job."""

    place: tuple[PlaceRule, ...] = ()
    apart: tuple[ApartRule, ...] = ()
    move_limits: tuple[MoveLimit, ...] = ()
    headroom: HeadroomRule | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all rules."""
        headroom = () if self.headroom is None else (self.headroom,)
        rules = (*self.place, *self.apart, *self.move_limits, *headroom)
        return tuple(rule.name for rule in rules)

    @property
    def are_of_several(self) -> bool:
        """Whether a rule is about several key groups at once, so that no mask states it."""
        return bool(self.apart or self.move_limits)


def rules_of_policy(policy: JobPolicy) -> PlacementRules | None:
    """Return the rules of a policy, with labels replaced by the nodes that have them.

    None if the policy has no rules.
    """
    if not policy.rules.names:
        return None
    nodes = [LabelledNode(node.id, node.labels, node.draining) for node in policy.nodes]
    rules = policy.rules
    return PlacementRules(
        place=tuple(_place_rule(rule, nodes) for rule in rules.place),
        apart=tuple(
            ApartRule(rule.name, rule.key_groups, rule.share_no == "rack") for rule in rules.apart
        ),
        move_limits=tuple(
            MoveLimit(rule.name, frozenset(rule.operators), rule.moves, rule.bytes, rule.share)
            for rule in rules.moves
        ),
        headroom=_headroom_rule(rules.headroom),
    )


def _headroom_rule(rule: HeadroomPolicy | None) -> HeadroomRule | None:
    if rule is None:
        return None
    return HeadroomRule(rule.name, rule.loss_of, rule.max_utilisation_pct / 100.0)


def _place_rule(rule: PlaceRulePolicy, nodes: list[LabelledNode]) -> PlaceRule:
    permitted = frozenset(node.id for node in nodes if rule.permits(node))
    return PlaceRule(
        rule.name,
        frozenset(rule.operators),
        frozenset(rule.key_groups),
        None if rule.stay else permitted,
    )
