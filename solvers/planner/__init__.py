"""One round of planning: allocation, scaling and key routing under one budget."""
