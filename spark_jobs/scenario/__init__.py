"""``what_if``: a plan for other nodes or another load; nothing is published."""
