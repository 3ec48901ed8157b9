"""Code that tests of several parts share: small policies, synthetic metrics."""
