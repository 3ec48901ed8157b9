"""The ``ballast`` command: shows plans, starts runs, checks policies, solves problem folders."""
