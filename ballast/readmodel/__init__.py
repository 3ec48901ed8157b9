"""What the review page and the command line show, read from the store."""
