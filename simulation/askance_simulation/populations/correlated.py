"""Bits that depend on each other: of tables by laws known exactly, and along a path of epochs."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners import paths_schema
from askance_aggregator.queries import EncodedColumns
from askance_client.errors import InvalidParameter
from askance_client.queries import Bit, Label, Schema
from askance_simulation.populations.columns import below, columns_of, draws
from askance_simulation.populations.population import Population, catalogued
from askance_simulation.randomness import Seed

_MAX_BITS = 64


@catalogued(
    "correlated-bits",
    "a chain of bits, their neighbours' correlation and the share of ones in hundredths",
)
def correlated_bits(
    size: int, seed: Seed, d: int = 8, correlation: int = 50, ones: int = 50
) -> Population:
    """Make `size` users with a Markov chain of `d` bits, fields x0, x1, ...

    Every bit is 1 with probability p = ones/100, and the correlation of x_i and x_j is
    (correlation/100)^|i-j|: a bit is 1 with probability p + c (1 - p) after a 1 and p (1 - c) after
    a 0, c the correlation of neighbours. Probabilities are exact to 2^-64.

    `d` is 1 .. 64, `ones` 1 .. 99 and `correlation` -99 .. 99; what is below 0 must be one that
    bits of such a bias can have, c >= -min(p/(1-p), (1-p)/p).
    """
    _check("correlated-bits", d)
    p, c = Fraction(ones, 100), Fraction(correlation, 100)
    if not 1 <= ones <= 99:
        raise InvalidParameter(f"correlated-bits: expected 1 to 99 hundredths of ones, got {ones}")
    least = -min(p / (1 - p), (1 - p) / p)
    if not -99 <= correlation <= 99 or c < least:
        lowest = max(-99, -int(-least * 100))
        raise InvalidParameter(
            f"correlated-bits: expected a correlation of {lowest} to 99 hundredths where"
            f" {ones} hundredths are ones, got {correlation}"
        )
    after_one, after_zero = p + c * (1 - p), p * (1 - c)
    people = seed / "people"

    def columns(start: int, stop: int) -> EncodedColumns:
        words = np.ascontiguousarray(draws(people, start, stop, d).T)
        bits = [below(words[0], p)]
        for word in words[1:]:
            bits.append(np.where(bits[-1], below(word, after_one), below(word, after_zero)))
        return columns_of({f"x{j}": _as_integers(bit) for j, bit in enumerate(bits)})

    return Population("correlated-bits", _bits_schema("correlated-bits", d), size, columns)


@catalogued(
    "latent-classes", "bits that agree with one of two classes, the label; chances in hundredths"
)
def latent_classes(
    size: int, seed: Seed, d: int = 8, agreement: int = 80, second: int = 50
) -> Population:
    """Make `size` users of two classes, the label y, with `d` bits that depend on the class alone.

    y is "yes" with probability q = second/100; each bit is 1 with probability a = agreement/100 in
    that class and 1 - a in the other, independently. So any two bits correlate by
    q (1-q) (2a-1)^2 / (m (1-m)), m = q a + (1-q)(1-a) the chance of a 1; (2a-1)^2 where q is 1/2.
    Probabilities are exact to 2^-64.
    `d` is 1 .. 64; `agreement` and `second` are hundredths, 0 .. 100 and 1 .. 99.
    """
    _check("latent-classes", d)
    if not 0 <= agreement <= 100:
        raise InvalidParameter(
            f"latent-classes: expected an agreement of 0 to 100 hundredths, got {agreement}"
        )
    if not 1 <= second <= 99:
        raise InvalidParameter(
            f"latent-classes: expected a second class of 1 to 99 hundredths, got {second}"
        )
    q, a = Fraction(second, 100), Fraction(agreement, 100)
    people = seed / "people"

    def columns(start: int, stop: int) -> EncodedColumns:
        words = np.ascontiguousarray(draws(people, start, stop, d + 1).T)
        y = below(words[-1], q)
        bits = {f"x{j}": _as_integers(below(words[j], a) == y) for j in range(d)}
        return columns_of({**bits, "y": _as_integers(y)})

    return Population(
        "latent-classes",
        _bits_schema("latent-classes", d, y=Label(["no", "yes"])),
        size,
        columns,
        unseen=lambda rows: columns(size, size + rows),
    )


def _check(name: str, d: int) -> None:
    if not 1 <= d <= _MAX_BITS:
        raise InvalidParameter(f"{name}: expected 1 to {_MAX_BITS} bits, got {d}")


def _bits_schema(name: str, d: int, **more: Label) -> Schema:
    return Schema.of(name, 1, {**{f"x{j}": Bit() for j in range(d)}, **more})


def _as_integers(truths: NDArray[np.bool_]) -> NDArray[np.int64]:
    return truths.astype(np.int64)


_START = Fraction(1, 4)  # share of users whose first bit is 1


@catalogued("paths", "a bit per epoch that changes a fixed number of times, at random epochs")
def paths(size: int, seed: Seed, horizon: int = 16, changes: int = 1) -> Population:
    """Make `size` users with fields epoch_1 .. epoch_T.

    The first bit is 1 with chance 1/4; it changes at `changes` epochs, all sets of which are
    equally likely.
    `horizon` is T, 2 .. 256 epochs, and `changes` is 0 .. T - 1.
    """
    schema = paths_schema(horizon)
    if not 0 <= changes < horizon:
        raise InvalidParameter(f"paths: changes: expected 0 to {horizon - 1}, got {changes}")
    people = seed / "people"

    def columns(start: int, stop: int) -> EncodedColumns:
        words = draws(people, start, stop, horizon)
        first = below(words[:, 0], _START)
        # The epochs of the least words; equal words are in the order of the epochs.
        ranks = np.argsort(np.argsort(words[:, 1:], axis=1, kind="stable"), axis=1, kind="stable")
        turns = np.cumsum(ranks < changes, axis=1) & 1
        rest = first[:, np.newaxis] ^ turns.astype(np.bool_)
        bits = np.column_stack([first, rest]).astype(np.int64)
        return columns_of(
            {name: np.ascontiguousarray(bits[:, place]) for place, name in enumerate(schema.fields)}
        )

    return Population("paths", schema, size, columns)
