"""Populations, fleets and experiments: the same system as deployed, on one machine, by a seed.

Its rules: every line that decides what is revealed is the trusted base's own; only where coins and
time come from is replaced. Same seed, same population, same study: the same transcript to the bit,
on every fleet. Randomness is drawn by (key, ordinal), never in sequence, so that order, sharding
and the number of workers cannot matter.
"""
