"""Tables of the warehouse as the pipeline reads and writes them."""
