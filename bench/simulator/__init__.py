"""The one simulator: a cluster of nodes, a job whose loads change, and balancers that follow.

It contains no experiment; programs such as ``bench/icde17.py`` define what is run.
"""
