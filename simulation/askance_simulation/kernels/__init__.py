"""Compiled loops over users: coins to levels, to reports, to sums, a block at a time.

Each module imports numba, which is optional; none is imported before a family's `fused.kernel` is
called for it. A loop computes in 64-bit integers what its family's `draw` computes in columns, and
adds what its tally counts to sums. It lets go of the interpreter's lock.
"""
