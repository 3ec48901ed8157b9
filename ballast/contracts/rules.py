"""The ``rules`` section of a job's policy: what no plan of the job may do."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated, Literal

from pydantic import Field, model_validator

from ballast.contracts.identity import split_key_group_name
from ballast.contracts.strict_model import StrictModel

Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,62}$")]
KeyGroupName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,62}/(0|[1-9][0-9]{0,5})$")]

MOST_SEARCHED = 12
"""Up to this number of rules the smallest set that conflicts is searched for exactly."""


class PlaceRulePolicy(StrictModel):
    """Key groups that may be on some nodes only, or that stay where they are."""

    name: Name
    operators: tuple[Name, ...] = ()
    """All key groups of these operators."""
    key_groups: tuple[KeyGroupName, ...] = ()
    """Single key groups, such as ``count/3``."""
    nodes: tuple[Name, ...] = ()
    """The nodes that they may be on; a single node pins them to it."""
    labels: tuple[Name, ...] = ()
    """They may be on the nodes that have every one of these labels."""
    stay: Annotated[bool, Field(strict=True)] = False
    """They stay on the node that they are on, as long as it is not dead."""

    @model_validator(mode="after")
    def _check_choice(self) -> PlaceRulePolicy:
        if not self.operators and not self.key_groups:
            raise ValueError("names no operators and no key_groups; name at least one")
        given = [field for field in ("nodes", "labels", "stay") if getattr(self, field)]
        if len(given) != 1:
            raise ValueError(
                f"has {' and '.join(given) or 'none of nodes, labels and stay'}; give one of them"
            )
        return self

    def permits(self, node: LabelledNode) -> bool:
        """Whether the rule lets its key groups be on a node."""
        if self.nodes:
            return node.id in self.nodes
        return set(self.labels) <= set(node.labels)


class ApartRulePolicy(StrictModel):
    """Key groups of which no two may share a node, or a rack."""

    name: Name
    key_groups: Annotated[tuple[KeyGroupName, ...], Field(min_length=2, max_length=1000)]
    share_no: Literal["node", "rack"] = "node"

    @model_validator(mode="after")
    def _check_members(self) -> ApartRulePolicy:
        twice = next((k for k in self.key_groups if self.key_groups.count(k) > 1), None)
        if twice is not None:
            raise ValueError(f"key_groups: {twice!r} is given twice")
        return self


class MoveLimitPolicy(StrictModel):
    """How much of an operator one plan may move, without what must leave dead nodes."""

    name: Name
    operators: Annotated[tuple[Name, ...], Field(min_length=1)]
    """The limit is of each of them by itself."""
    moves: Annotated[int, Field(strict=True, ge=0, le=10_000_000)] | None = None
    bytes: Annotated[int, Field(strict=True, ge=0, le=10**15)] | None = None
    share: Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)] | None = None
    """Of the key groups of the operator, rounded down."""

    @model_validator(mode="after")
    def _check_limits(self) -> MoveLimitPolicy:
        if self.moves is None and self.bytes is None and self.share is None:
            raise ValueError("has none of moves, bytes and share; give at least one of them")
        return self


class HeadroomPolicy(StrictModel):
    """How full nodes may become when a node or a rack is lost."""

    name: Name = "headroom"
    loss_of: Annotated[tuple[Literal["node", "rack"], ...], Field(min_length=1)] = ("node",)
    """What may be lost: any one node, any one rack."""
    max_utilisation_pct: Annotated[float, Field(strict=True, gt=0, le=100, allow_inf_nan=False)] = (
        100.0
    )
    """The most load of a node that is left, in percent of its capacity."""


class RulesPolicy(StrictModel):
    """What no plan of the job may do. Names are unique over all rules."""

    place: tuple[PlaceRulePolicy, ...] = ()
    apart: tuple[ApartRulePolicy, ...] = ()
    moves: tuple[MoveLimitPolicy, ...] = ()
    headroom: HeadroomPolicy | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all rules, in their order."""
        headroom = () if self.headroom is None else (self.headroom,)
        return tuple(rule.name for rule in (*self.place, *self.apart, *self.moves, *headroom))


@dataclass(frozen=True)
class LabelledNode:
    """A node of the policy, as rules see it."""

    id: str
    labels: tuple[str, ...]
    is_draining: bool
    rack: str = ""


def check_rules(
    rules: RulesPolicy, nodes: Sequence[LabelledNode], key_groups: Mapping[str, int]
) -> None:
    """Check rules against the nodes and operators of their policy.

    Args:
        rules: the rules.
        nodes: the nodes of the policy, spare ones included.
        key_groups: the number of key groups of each operator.

    Raises:
        ValueError: a rule names something that the policy does not have, or no node of the policy
            keeps all rules of a key group. The message has the field.
    """
    names = rules.names
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"rules: the name {twice!r} is given twice; each rule needs its own")
    for number, rule in enumerate(rules.place):
        field = f"rules.place.{number}"
        _check_selected(field, rule.operators, rule.key_groups, key_groups)
        _check_nodes(field, rule, nodes)
    for number, apart in enumerate(rules.apart):
        _check_selected(f"rules.apart.{number}", (), apart.key_groups, key_groups)
    for number, limit in enumerate(rules.moves):
        _check_selected(f"rules.moves.{number}", limit.operators, (), key_groups)
    _check_intersections(rules.place, nodes)
    if rules.headroom is not None:
        _check_headroom(rules.headroom, nodes)
    for number, apart in enumerate(rules.apart):
        _check_apart(f"rules.apart.{number}", apart, rules.place, nodes)


def smallest_conflict(allowed: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """The smallest set of rules that no node keeps, by name; empty if a node keeps all.

    Args:
        allowed: the nodes that each rule permits, by the name of the rule.
    """
    if not allowed or set.intersection(*map(set, allowed.values())):
        return ()
    names = list(allowed)
    if len(names) > MOST_SEARCHED:
        return _reduced(names, allowed)
    sets = (some for size in range(1, len(names) + 1) for some in combinations(names, size))
    return next(some for some in sets if not set.intersection(*(set(allowed[n]) for n in some)))


def _reduced(names: list[str], allowed: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """A set of rules that conflicts, and of which none can be left out."""
    left = list(names)
    for name in names:
        rest = [other for other in left if other != name]
        if rest and not set.intersection(*(set(allowed[n]) for n in rest)):
            left = rest
    return tuple(left)


def _check_selected(
    field: str,
    operators: Sequence[str],
    names: Sequence[str],
    key_groups: Mapping[str, int],
) -> None:
    for operator in operators:
        if operator not in key_groups:
            raise ValueError(
                f"{field}.operators: {operator!r} is not an operator; allowed: "
                f"{', '.join(key_groups)}"
            )
    for name in names:
        operator, number = split_key_group_name(name)
        if operator not in key_groups:
            raise ValueError(
                f"{field}.key_groups: {name!r} is of no operator; allowed: {', '.join(key_groups)}"
            )
        if number >= key_groups[operator]:
            raise ValueError(
                f"{field}.key_groups: {name!r} does not exist; {operator} has the key groups 0 to "
                f"{key_groups[operator] - 1}"
            )


def _check_nodes(field: str, rule: PlaceRulePolicy, nodes: Sequence[LabelledNode]) -> None:
    known = [node.id for node in nodes]
    for name in rule.nodes:
        if name not in known:
            raise ValueError(f"{field}.nodes: {name!r} is not a node; allowed: {', '.join(known)}")
    labels = sorted({label for node in nodes for label in node.labels})
    for label in rule.labels:
        if label not in labels:
            raise ValueError(
                f"{field}.labels: no node has the label {label!r}; allowed: "
                f"{', '.join(labels) or 'none, because no node has labels'}"
            )
    if rule.stay:
        return
    kept = [node for node in nodes if rule.permits(node)]
    if not kept:
        raise ValueError(f"{field}.labels: no node has all of {', '.join(rule.labels)}")
    if all(node.is_draining for node in kept):
        raise ValueError(
            f"{field} ({rule.name}): {', '.join(node.id for node in kept)} drains, so no key group "
            "may be placed there; name a node that stays, or do not drain it"
        )


def _check_intersections(rules: Sequence[PlaceRulePolicy], nodes: Sequence[LabelledNode]) -> None:
    """Each key group has a node that keeps all of its rules and does not drain."""
    staying = [node for node in nodes if not node.is_draining]
    allowed = {
        rule.name: {node.id for node in staying if rule.permits(node)}
        for rule in rules
        if not rule.stay
    }
    for selected, of_selected in _selections(rules):
        conflict = smallest_conflict({rule.name: allowed[rule.name] for rule in of_selected})
        if conflict:
            raise ValueError(
                f"rules.place: {selected} may be on no node: "
                f"{' and '.join(conflict)} permit no common node that stays; change one of them"
            )


def _selections(
    rules: Sequence[PlaceRulePolicy],
) -> Iterator[tuple[str, list[PlaceRulePolicy]]]:
    """Each operator and key group that rules name, with the rules that list nodes for it."""
    listing = [rule for rule in rules if not rule.stay]
    for operator in dict.fromkeys(name for rule in listing for name in rule.operators):
        yield f"operator {operator}", [rule for rule in listing if operator in rule.operators]
    for name in dict.fromkeys(name for rule in listing for name in rule.key_groups):
        yield f"key group {name}", _listing(name, rules)


def _check_apart(
    field: str,
    rule: ApartRulePolicy,
    place: Sequence[PlaceRulePolicy],
    nodes: Sequence[LabelledNode],
) -> None:
    """There are nodes, or racks, for all members of a rule, also by the rules for their place."""
    listed = {name: _listing(name, place) for name in rule.key_groups}
    places = {
        name: {
            node.rack if rule.share_no == "rack" else node.id
            for node in nodes
            if not node.is_draining and all(of.permits(node) for of in rules)
        }
        for name, rules in listed.items()
    }
    crowded = crowded_members(places)
    if not crowded:
        return
    common = sorted(set[str]().union(*(places[name] for name in crowded)))
    others = dict.fromkeys(of.name for name in crowded for of in listed[name])
    raise ValueError(
        f"{field} ({' and '.join([rule.name, *others])}): {', '.join(crowded)} may share no "
        f"{rule.share_no}, and there {'is' if len(common) == 1 else 'are'} only {len(common)} for "
        f"{len(crowded)} of them: {', '.join(common)}"
    )


def _check_headroom(rule: HeadroomPolicy, nodes: Sequence[LabelledNode]) -> None:
    """Something is left after every loss."""
    staying = [node for node in nodes if not node.is_draining]
    for kind, names in (
        ("node", {node.id for node in staying}),
        ("rack", {node.rack for node in staying}),
    ):
        if kind in rule.loss_of and len(names) < 2:
            raise ValueError(
                f"rules.headroom.loss_of: {kind!r} needs nodes on two {kind}s that stay at least; "
                f"there is only {', '.join(sorted(names))}"
            )


def crowded_members(places: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """Members that have fewer places than they are, so that two of them must share one.

    Args:
        places: the places that each member may have.

    Returns:
        A smallest-found set of such members, sorted; empty if each can have a place of its own.
    """
    taken: dict[str, str] = {}
    for name in sorted(places, key=lambda name: (len(places[name]), name)):
        reached = _taken_in_turn(name, places, taken)
        if reached:
            return tuple(sorted(reached))
    return ()


def _taken_in_turn(
    first: str, places: Mapping[str, Collection[str]], taken: dict[str, str]
) -> set[str]:
    """Find a place for a member, moving others (augmenting path); the members tried if none is."""
    came_from: dict[str, str] = {}
    queue, reached = [first], {first}
    while queue:
        member = queue.pop(0)
        for place in sorted(places[member]):
            if place in came_from:
                continue
            came_from[place] = member
            if place not in taken:
                _take(place, first, came_from, taken)
                return set()
            reached.add(taken[place])
            queue.append(taken[place])
    return reached


def _take(place: str, first: str, came_from: Mapping[str, str], taken: dict[str, str]) -> None:
    """Give the place to the member it was reached from, which leaves its own to the one before."""
    while True:
        member = came_from[place]
        left = next((of for of, by in taken.items() if by == member), None)
        taken[place] = member
        if member == first or left is None:
            return
        del taken[left]
        place = left


def _listing(name: str, place: Sequence[PlaceRulePolicy]) -> list[PlaceRulePolicy]:
    operator, _ = split_key_group_name(name)
    return [
        rule
        for rule in place
        if not rule.stay and (name in rule.key_groups or operator in rule.operators)
    ]
