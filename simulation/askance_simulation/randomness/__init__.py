"""Seeded randomness of simulations, by random access.

Every draw is a function of a seed, a name and an ordinal, never of an order: `seeds` is the tree of
seeds, `coins` and `words` are keystreams under its nodes, and `chances` compares words with exact
thresholds. Devices and releases use the operating system's randomness instead.
"""
