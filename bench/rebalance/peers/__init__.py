"""One program per peer. Each runs in a process of its own, with the Python that the peer needs.

A peer's environment has numpy and the peer, and none of ours: these modules import nothing else at
the top, but for ``ours``, which runs in the project's environment.
"""
