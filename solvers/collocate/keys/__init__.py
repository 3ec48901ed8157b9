"""Routing by key (seed 004): pair statistics, the key graph, and routing tables."""
