"""Reads and writes the tables without a JVM: for commands, streaming jobs and the review page."""
