"""Streaming engines whose jobs follow plans.

Each engine is a folder: a collector that writes the job's metrics, an applier that brings the job
under the plan in force, and what plans may contain (``ballast.contracts.engine``). See
docs/engines.md.
"""
