"""Reference streaming jobs on real data."""
