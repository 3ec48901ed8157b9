"""``measure``: promised against measured figures of the version in force."""
