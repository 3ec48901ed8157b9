"""A heap of nodes in an array, with the largest key on top."""

from __future__ import annotations

from solvers.rebalance.kernels.compiled import compiled_without_allocation


@compiled_without_allocation
def push(heap, keys, size, node):  # type: ignore[no-untyped-def]
    """Add a node to the heap. Returns the new size."""
    at = size
    heap[at] = node
    while at > 0:
        up = (at - 1) // 2
        if keys[heap[up]] >= keys[heap[at]]:
            break
        heap[up], heap[at] = heap[at], heap[up]
        at = up
    return size + 1


@compiled_without_allocation
def settle(heap, keys, size):  # type: ignore[no-untyped-def]
    """Restore the order after the key on top has become smaller."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            return
        if child + 1 < size and keys[heap[child + 1]] > keys[heap[child]]:
            child += 1
        if keys[heap[child]] <= keys[heap[at]]:
            return
        heap[child], heap[at] = heap[at], heap[child]
        at = child


@compiled_without_allocation
def pop(heap, keys, size):  # type: ignore[no-untyped-def]
    """Remove the node on top of the heap. Returns the new size."""
    heap[0] = heap[size - 1]
    settle(heap, keys, size - 1)
    return size - 1
