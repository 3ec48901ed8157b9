"""The noise of measured loads: estimates, intervals of promises, and evidence for a gain."""
