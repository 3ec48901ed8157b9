"""The steps of ``measure``: promised against measured figures of the plan version in force."""
