"""The inner loops of the rebalance methods, compiled by numba and kept in its cache (ADR 14)."""
