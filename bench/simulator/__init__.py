"""The one simulator: a cluster of nodes, a job whose loads change, and balancers that follow.

It knows nothing of any experiment; the programs beside it (``bench/icde17.py``) say what is run.
"""
