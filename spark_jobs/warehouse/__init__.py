"""Access of the pipeline to the warehouse: Delta tables from Spark, and the log of plans."""
