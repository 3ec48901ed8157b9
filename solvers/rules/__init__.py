"""Rules of a job's policy: conflicts, narrower masks, fail-over and headroom, reports on plans."""
