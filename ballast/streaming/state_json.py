"""State as JSON: refuses values that JSON would not return unchanged."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ballast.contracts.errors import InvalidInput

if TYPE_CHECKING:
    from ballast.streaming.operators import State


def state_json(state: State, where: str) -> bytes:
    """The state of a key group as JSON; ``where`` names it in the error.

    Raises:
        InvalidInput: the state has values that JSON would not return unchanged.
    """
    wrong = next((key for key in state if type(key) is not str), None)
    if wrong is not None:
        raise InvalidInput(
            f"state of {where} has the key {wrong!r}", value=wrong,
            allowed="strings as keys and JSON values", remedy="use str(key) in the operator",
        )  # fmt: skip
    try:
        text = _json(state, ascii_only=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"state of {where} is not JSON: {error}", allowed="strings, numbers, lists, dicts",
            remedy="keep plain values in the state",
        ) from error  # fmt: skip
    try:
        return text.encode()
    except UnicodeEncodeError:  # invalid Unicode is kept exactly by escapes
        return _json(state, ascii_only=True).encode()


def _json(state: State, *, ascii_only: bool) -> str:
    return json.dumps(state, separators=(",", ":"), ensure_ascii=ascii_only, allow_nan=False)
