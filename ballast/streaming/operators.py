"""Operators as a job author declares them, and the topology of operators and policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ballast.contracts.errors import InvalidInput
from ballast.streaming.state_merge import StateMerge, check_merge

if TYPE_CHECKING:
    from ballast.contracts.policy import JobPolicy

State = dict[str, Any]
Process = Callable[[State, str, Any], Iterable[Any] | None]
KeyOf = Callable[[Any], str | None]


@dataclass(frozen=True)
class Operator:
    """One operator of a job.

    Attributes:
        id: name of the operator in the policy.
        process: called as ``process(state, key, record)`` for each record. ``state`` is the dict
            of the key's key group, with strings as keys and JSON values. The records that it
            returns or yields are sent downstream.
        key: called with every record of an upstream operator; returns the key under which this
            operator takes the record, or None to ignore it. The first operator has no ``key``: its
            records have the job's ``source_key``.
        state_by_key: the author's assertion that ``state[key]`` is all that the operator keeps
            about a key. Only then can a plan move single keys, because only then is it known which
            state moves with them.
        merge: how partial states of a key merge. Only then, and only where no edge leaves the
            operator, can a plan split a key over several key groups.
    """

    id: str
    process: Process
    key: KeyOf | None = None
    state_by_key: bool = False
    merge: StateMerge | None = None


@dataclass(frozen=True)
class Topology:
    """The operators of a job in topological order, with their key groups and edges."""

    operators: tuple[Operator, ...]
    key_groups: tuple[int, ...]
    downstream: tuple[tuple[int, ...], ...]
    index: Mapping[str, int] = field(repr=False)

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the operators, upstream first."""
        return tuple(operator.id for operator in self.operators)

    @property
    def stages(self) -> int:
        """Number of operators on the longest path: a record changes nodes less often than that."""
        depth = [1] * len(self.operators)
        for source in range(len(self.operators)):
            for target in self.downstream[source]:
                depth[target] = max(depth[target], depth[source] + 1)
        return max(depth)

    @property
    def edges_by_key(self) -> list[tuple[int, int]]:
        """Edges between operators that both keep their state by key."""
        return [
            (source, target)
            for source, targets in enumerate(self.downstream)
            for target in targets
            if self.operators[source].state_by_key and self.operators[target].state_by_key
        ]

    @property
    def operators_of_counted_keys(self) -> list[int]:
        """Operators whose keys are counted: plans may route or split them, if anything."""
        on_edges = {end for edge in self.edges_by_key for end in edge}
        last = {
            number
            for number, operator in enumerate(self.operators)
            if operator.state_by_key and not self.downstream[number]
        }
        return sorted(on_edges | last)

    @property
    def all_key_groups(self) -> list[tuple[str, int]]:
        """Every key group of every operator, upstream operators first."""
        return [
            (operator, group)
            for operator, groups in zip(self.ids, self.key_groups, strict=True)
            for group in range(groups)
        ]


def build_topology(job: str, operators: Sequence[Operator], policy: JobPolicy) -> Topology:
    """The topology of declared operators and policy.

    Raises:
        InvalidInput: the operators do not fit the policy.
    """
    if policy.job != job:
        raise InvalidInput(
            f"the job is named {job!r} but the policy is of job {policy.job!r}",
            value=policy.job, allowed=repr(job), remedy=f"load policies/{job}.yaml",
        )  # fmt: skip
    _check_declared(operators, policy)
    edges = [(edge.source, edge.target) for edge in policy.edges]
    order = _topological([operator.id for operator in policy.operators], edges)
    _check_source(order, edges)
    by_id = {operator.id: operator for operator in operators}
    ordered = tuple(by_id[name] for name in order)
    _check_keys(ordered)
    _check_routed(ordered, policy)
    _check_merges(ordered, policy, {source for source, _ in edges})
    index = {name: position for position, name in enumerate(order)}
    return Topology(
        operators=ordered,
        key_groups=tuple(policy.operator(name).key_groups for name in order),
        downstream=tuple(
            tuple(index[target] for source, target in edges if source == name) for name in order
        ),
        index=index,
    )


def _check_declared(operators: Sequence[Operator], policy: JobPolicy) -> None:
    declared = sorted(operator.id for operator in operators)
    wanted = sorted(operator.id for operator in policy.operators)
    if declared != wanted:
        raise InvalidInput(
            f"job {policy.job} declares the operators {', '.join(declared)}, "
            f"its policy has {', '.join(wanted)}",
            value=declared, allowed=", ".join(wanted),
            remedy="declare each operator of the policy once, or edit `operators:` in the policy",
        )  # fmt: skip


def _topological(names: list[str], edges: list[tuple[str, str]]) -> list[str]:
    """Upstream operators first; otherwise in the policy's order."""
    order: list[str] = []
    while len(order) < len(names):
        order.append(
            next(
                name
                for name in names
                if name not in order and all(a in order for a, b in edges if b == name)
            )
        )
    return order


def _check_source(order: list[str], edges: list[tuple[str, str]]) -> None:
    roots = [name for name in order if not any(target == name for _, target in edges)]
    if len(roots) != 1:
        raise InvalidInput(
            f"the operators {', '.join(roots)} have no edge into them",
            value=roots, allowed="exactly one operator that is fed by the source",
            remedy="add the missing edges to `edges:` in the policy",
        )  # fmt: skip


def _check_keys(ordered: tuple[Operator, ...]) -> None:
    first, rest = ordered[0], ordered[1:]
    if first.key is not None:
        raise InvalidInput(
            f"operator {first.id} is fed by the source and has a key of its own",
            value=first.id, allowed="no key: the job's source_key is its key",
            remedy="remove key= from the operator",
        )  # fmt: skip
    without = [operator.id for operator in rest if operator.key is None]
    if without:
        raise InvalidInput(
            f"operator {without[0]} has no key", value=without[0],
            allowed="key=<function of a record that gives a string or None>",
            remedy="give the key under which a record comes to the operator",
        )  # fmt: skip


def _check_routed(ordered: tuple[Operator, ...], policy: JobPolicy) -> None:
    """Checks that operators whose keys plans may route keep their state by key.

    These are both ends of `routing.edges`, and operators with the same partition key.
    """
    ends = {end for edge in policy.routing.edges for end in (edge.source, edge.target)}
    for end in sorted(ends):
        for operator in ordered:
            if operator.id in policy.followers(end) and not operator.state_by_key:
                follows = "" if operator.id == end else f", which has the partition key of {end},"
                raise InvalidInput(
                    f"routing.edges of the policy lets plans route the keys of {end}, and "
                    f"operator {operator.id}{follows} does not say that it keeps its state by key",
                    value=operator.id, allowed="state_by_key=True",
                    remedy="declare it if all that the operator keeps about a key is state[key]; "
                    "otherwise take the edge out of `routing.edges`"
                    + (", or give the operator a partition_key of its own" if follows else ""),
                )  # fmt: skip


def _check_merges(ordered: tuple[Operator, ...], policy: JobPolicy, senders: set[str]) -> None:
    """Checks merge functions, and that operators whose keys plans may split have one."""
    for operator in ordered:
        if operator.merge is not None and operator.id in senders:
            raise InvalidInput(
                f"operator {operator.id} has a merge function, and an edge leaves it",
                value=operator.id, allowed="a merge function of the last operator of a path",
                remedy="take merge= out: what is sent on would be made from a part of the state",
            )  # fmt: skip
        check_merge(operator)
        if operator.merge is None and operator.id in policy.split_operators:
            raise InvalidInput(
                f"splits.operators of the policy lets plans split keys of {operator.id}, and the "
                "operator does not declare how partial states merge",
                value=operator.id, allowed="merge=StateMerge(function, sample)",
                remedy="declare it, or take the operator out of `splits.operators`",
            )  # fmt: skip
