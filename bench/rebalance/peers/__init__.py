"""One program for each peer. Each runs in a process of its own, with the Python of that peer.

A peer's environment has numpy and the peer, and no package of Ballast. These modules import nothing
else at the top, except ``ours``, which runs in the project's environment.
"""
