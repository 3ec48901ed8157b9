"""The verifier: recomputes every promise of a plan. Imports ``solvers.model`` alone."""
