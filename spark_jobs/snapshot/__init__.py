"""The steps of ``condense``: find the period, validate rows, select windows, average, write."""
