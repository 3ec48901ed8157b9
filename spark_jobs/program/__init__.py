"""What every pipeline program shares: arguments, exit codes, Spark session, fault points."""
