"""The papers: their trusted curator, and every statement of theirs reproduced by measurement.

- ``curator``: algorithms for a party that holds all users' records; ``curate``: its learners on a
  data file.
- ``reductions``: local algorithms and statistical queries in place of each other.
- ``reproduce``: theorems, tables and figures, each beside what is measured.
- ``commands``: `askance curate` and `askance reproduce`, which the command line finds as entry
  points; ``interface``: the same for `import askance as ask`.

Nothing of the client, the aggregator or the simulation imports this package.
"""
