"""Shared by every pipeline program: arguments, exit codes, Spark session, fault points."""
