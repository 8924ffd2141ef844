"""The limits of a schema and of a query, as named constants.

They bound what an untrusted query can cost a device, and they are what makes int64 enough.
"""

from __future__ import annotations

MAX_MAGNITUDE = 1 << 62  # every value on a grid is smaller: a difference of two fits in int64
MAX_FRAC = 40  # the finest grid is 2^-40
MAX_DEPTH = 64
MAX_NODES = 4096
MAX_WEIGHT = 1 << 16  # nodes, arguments and constants of one query, together
CONSTANT_FRAC = 16  # the grid of constants that are not integers

WORD = 32  # components of a bit vector that share one word
MAX_BITS = 4096
MAX_LABELS = 1 << 16
MAX_LABEL_BYTES = 1024
MAX_FIELDS = 4096
MAX_CELLS = 1 << 20  # of a category that is an integer; labels are fewer
MAX_COMPONENTS = 1024  # of a vector query
MAX_SPREAD = 1 << 31  # high - low of a real query or a vector, in grid units (for random rounding)
