"""Ballast: what streaming jobs, scripts and the pipeline import."""

__version__ = "0.1.0"
