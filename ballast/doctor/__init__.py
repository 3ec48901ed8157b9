"""Checks of a deployment: what ``ballast doctor`` looks at. A check returns a finding."""
