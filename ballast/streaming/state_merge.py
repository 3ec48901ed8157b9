"""How two partial states of one key become one, and the check of that on a sample.

A plan may split a hot key over several key groups. Each of them then has a part of the key's state,
and parts are merged when a plan joins the key again or somebody reads the results (ADR 73). Which
parts meet first depends on the plan, so the sums are exact only if the order does not matter.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING, Any

from ballast.contracts.errors import BallastError, InvalidInput
from ballast.streaming.state_json import state_json

if TYPE_CHECKING:
    from ballast.streaming.operators import Operator

FEWEST, MOST_COMPARED = 3, 6
"""Records that a sample has at least, and from how many of them triples are compared."""
SAMPLE_KEY = "sample"


@dataclass(frozen=True)
class StateMerge:
    """The author's declaration of how partial states of a key merge.

    Attributes:
        function: called as ``function(a, b)`` with two values of ``state[key]``; returns the value
            that one key group would have after the records of both. It must be associative and
            commutative: whole numbers may be added, floating-point numbers not, because the last
            digits of their sum depend on the order.
        sample: three or more records of the operator, as ``process`` gets them. The function is
            checked on them when the job starts.
    """

    function: Callable[[Any, Any], Any]
    sample: Sequence[Any]

    def __post_init__(self) -> None:
        if len(self.sample) < FEWEST:
            raise InvalidInput(
                f"the sample of a merge function has {len(self.sample)} records",
                value=len(self.sample), allowed=f"{FEWEST} or more",
                remedy="give records that lead to different states",
            )  # fmt: skip


def merged(operator: Operator, first: Any, second: Any) -> Any:
    """The value of ``state[key]`` of two key groups together.

    Raises:
        InvalidInput: the operator declares no merge function.
    """
    if operator.merge is None:
        raise InvalidInput(
            f"a key of {operator.id} has state in two key groups, and the operator declares no "
            "merge function", value=operator.id, allowed="merge=StateMerge(...)",
            remedy="declare it again, as it was when the key was split",
        )  # fmt: skip
    return operator.merge.function(first, second)


def check_merge(operator: Operator) -> None:
    """Checks on the operator's sample that the split of a key cannot be seen in its state.

    Raises:
        InvalidInput: the function depends on the order, or merged states differ from the state
            that all records give in one place.
    """
    if operator.merge is None:
        return
    if not operator.state_by_key:
        raise InvalidInput(
            f"operator {operator.id} has a merge function and does not say that it keeps its state "
            "by key", value=operator.id, allowed="state_by_key=True",
            remedy="declare it if all that the operator keeps about a key is state[key]",
        )  # fmt: skip
    try:
        _check_order(operator)
        _check_parts(operator)
    except BallastError:
        raise
    except Exception as error:
        raise InvalidInput(
            f"operator {operator.id} fails on the sample of its merge function: {error!r}",
            value=operator.id, allowed="records as `process` gets them",
            remedy="correct the sample or the function",
        ) from error  # fmt: skip


def _check_order(operator: Operator) -> None:
    """Any two of the states commute, and any three associate."""
    records = list(operator.merge.sample)[:MOST_COMPARED] if operator.merge else []
    states = [_state_of(operator, [record]) for record in records]
    for a, b, c in permutations(states, 3):
        left = _merge(operator, _merge(operator, a, b), c)
        right = _merge(operator, a, _merge(operator, b, c))
        if left != right:
            raise _refusal(operator, "associative", f"(a, b), c gives {left!r}, "
                           f"a, (b, c) gives {right!r}", (a, b, c))  # fmt: skip
        if _merge(operator, a, b) != _merge(operator, b, a):
            raise _refusal(operator, "commutative", f"a, b gives {_merge(operator, a, b)!r}, "
                           f"b, a gives {_merge(operator, b, a)!r}", (a, b))  # fmt: skip


def _check_parts(operator: Operator) -> None:
    """Records that are dealt over two or three states give, merged, the state of all in one."""
    records = list(operator.merge.sample) if operator.merge else []
    whole = _state_of(operator, records)
    for parts in (2, 3):
        dealt = [_state_of(operator, records[first::parts]) for first in range(parts)]
        found = dealt[0]
        for state in dealt[1:]:
            found = _merge(operator, found, state)
        if found != whole:
            raise _refusal(operator, "a merge of parts", f"the records in {parts} parts give "
                           f"{found!r}, in one place {whole!r}", dealt)  # fmt: skip


def _refusal(operator: Operator, what: str, found: str, states: Sequence[Any]) -> InvalidInput:
    names = ", ".join(f"{name} = {state!r}" for name, state in zip("abc", states, strict=False))
    return InvalidInput(
        f"the merge function of operator {operator.id} is not {what} on its sample: {found}, "
        f"where {names}", value=operator.id,
        allowed="a function for which order and grouping make no difference",
        remedy="count in whole numbers, keep sum and count instead of a mean, or declare no merge",
    )  # fmt: skip


def _state_of(operator: Operator, records: Sequence[Any]) -> Any:
    """``state[key]`` after these records, as it is stored."""
    state: dict[str, Any] = {}
    for record in records:
        sent = operator.process(state, SAMPLE_KEY, record)
        if sent is not None and list(sent):
            raise InvalidInput(
                f"operator {operator.id} has a merge function and sent a record on",
                value=operator.id, allowed="nothing sent on: the state is the result",
                remedy="declare no merge function; records made from a part would be wrong",
            )  # fmt: skip
    if set(state) - {SAMPLE_KEY}:
        raise InvalidInput(
            f"operator {operator.id} keeps {sorted(set(state) - {SAMPLE_KEY})[0]!r} beside its key",
            value=operator.id, allowed="state[key] alone (state_by_key=True)",
            remedy="keep all that belongs to a key in state[key]",
        )  # fmt: skip
    return _stored(operator, state).get(SAMPLE_KEY)


def _merge(operator: Operator, first: Any, second: Any) -> Any:
    """Merges copies, because a function may change what it gets."""
    pair = _stored(operator, {"first": first, "second": second})
    value = merged(operator, pair["first"], pair["second"])
    return _stored(operator, {SAMPLE_KEY: value})[SAMPLE_KEY]


def _stored(operator: Operator, state: dict[str, Any]) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(state_json(state, f"{operator.id} on its sample"))
    return copy
