"""Real Jobs 2, 3 and 4 of [ICDE17, 5.4], on the streaming library: real flights, real operators,
real shuffles; twenty logical nodes on this machine. ``python -m bench.real_jobs`` runs them."""
