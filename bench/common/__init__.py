"""What the benchmarks share: the runner, seeds, Markdown tables, verdicts and drawing."""
