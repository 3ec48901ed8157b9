"""The decorator of every compiled loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a loop that allocates arrays: ``numba.njit`` with the cache, without Python's lock."""
    return _jit(function)


def compiled_without_allocation(function: Callable[..., Any]) -> Any:
    """Compile a function that allocates nothing.

    numba then leaves out the counting of references. It would otherwise count for every field of a
    named tuple that is read, which made the search six times slower.
    """
    return _jit(function, _nrt=False)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a function that allocates nothing, and copy its code to where it is called.

    A call that is not inlined passes every field of its named tuples.
    """
    return _jit(function, _nrt=False, forceinline=True)


def _jit(function: Callable[..., Any], **more: Any) -> Any:
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", **more}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # There is no folder for a cache, so every process compiles.
        return numba.njit(**options)(function)
