"""Great Expectations suites for metrics and snapshots, generated from the table definitions."""
