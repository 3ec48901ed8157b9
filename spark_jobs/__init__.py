"""The pipeline's Spark jobs: condense, solve, publish, measure. Each is a program of its own."""
