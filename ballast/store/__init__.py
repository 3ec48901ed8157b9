"""Access to the tables without a JVM: for the command line, streaming jobs and the review page."""
