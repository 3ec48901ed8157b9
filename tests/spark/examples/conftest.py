"""Jobs run Python in Spark's workers; it must be the Python of the environment."""

from __future__ import annotations

import os
import sys

# Read when the session starts, which all tests of this process share.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
