"""Routing by key ([MW16-LOCALITY]): pair statistics, the key graph, and routing tables."""
