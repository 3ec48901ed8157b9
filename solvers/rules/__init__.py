"""Rules of a job's policy: conflicts between them, and words about a plan that keeps them."""
