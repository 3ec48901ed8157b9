"""Streaming jobs run Python in Spark's workers, which must be the environment's."""

from __future__ import annotations

import os
import sys

# Read when the session starts, which every test of this process shares.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
