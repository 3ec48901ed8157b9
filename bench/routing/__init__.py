"""Routing by key on real flights and on the synthetic setting of [MW16-LOCALITY]: one run, one
table.

``python -m bench.routing --help`` says how; bench/README.md says what is compared and how fairly.
"""
