"""Routing by key on real flights and on the synthetic setting of [MW16-LOCALITY].

``python -m bench.routing --help`` lists the options; bench/README.md describes the comparison.
"""
