"""The steps of ``check_invariants``: what is read, what must hold, what can be put right."""
