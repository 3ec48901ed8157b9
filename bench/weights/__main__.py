"""Starts ``bench.weights.command``; worker processes import this file, so it imports nothing."""

from __future__ import annotations

if __name__ == "__main__":
    import sys

    from bench.weights.command import main

    sys.exit(main())
