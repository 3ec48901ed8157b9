"""What the benchmarks share: the commit that names the seeds, Markdown tables, and verdicts."""
