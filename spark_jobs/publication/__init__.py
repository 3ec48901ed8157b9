"""``prepare`` and ``publish``: review of a draft, and the change of the head."""
