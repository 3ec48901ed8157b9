"""What the Makefile calls: set-up, jars, test and lint runners. Standard library only."""
