"""The ``ballast`` command: look at plans, check policies, solve and verify problem folders."""
