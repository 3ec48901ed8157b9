"""Whether promised intervals hold, and how few plans and moves noise causes."""
