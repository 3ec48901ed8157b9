"""``rollback``: the content of an earlier version as a new version."""
