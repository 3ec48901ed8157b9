"""``solve``: from a snapshot to a verified draft plan."""
