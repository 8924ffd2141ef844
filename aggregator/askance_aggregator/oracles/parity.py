"""PARITY's expectations for all 2^d concepts at once, by one transform a question.

A uniform x in {0,1}^d has the label y = (-1)^<r,x>. A query with values g(x, y) has the expectation
C_g + <h_g, chi_r>: C_g is the mean of (g(x, 1) + g(x, -1))/2, h_g(x) = (g(x, 1) - g(x, -1))/2, and
chi_r(x) = (-1)^<r,x>. The correlations of h_g with all parities are its Walsh-Hadamard transform,
in whole numbers. By Parseval their squares sum to E[h_g^2], at most 1 for values in [-1, 1].
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners import Answer, Answers, Batch, Question
from askance_aggregator.numbers import whole_within
from askance_aggregator.oracles.oracle import Oracle
from askance_aggregator.queries import encode_columns, evaluate_columns
from askance_client.errors import InvalidParameter, InvalidQuery
from askance_client.queries import Bits, Label, Query, QueryKind, Schema

MAX_D = 18
_KINDS = (QueryKind.PREDICATE, QueryKind.REAL)


def parity_schema(d: int) -> Schema:
    """Return the records x, d bits, with their label y."""
    whole_within(d, 1, MAX_D, "d")
    return Schema("parity", 1, x=Bits(d), y=Label([1, -1]))


@dataclass(frozen=True, slots=True, eq=False)
class Spectrum:
    """Expectations of one query under all parities: (constant + correlations[r]) / scale.

    Args:
        constant: C_g times the scale.
        correlations: shape (2^d,): <h_g, chi_r> times the scale; bit j of r is r_j.
    """

    constant: int
    correlations: NDArray[np.int64]
    scale: int

    def above(self, tau: Fraction) -> NDArray[np.bool_]:
        """Return the parities whose correlation is tau or more in magnitude, shape (2^d,)."""
        least = -(-tau.numerator * self.scale // tau.denominator)
        return np.abs(self.correlations) >= least


class ParityWorld:
    """Oracles of uniform examples that are labelled by a parity, or by fair coins.

    Args:
        d: bits of x, 1..18.

    Source: KLNRS08 section 3.2 (the class); Blum et al. 1994 (the transform).
    """

    def __init__(self, d: int) -> None:
        self.schema = parity_schema(d)
        self.size = 1 << d
        x = np.arange(self.size)[:, None] >> np.arange(d) & 1
        self._labelled = [
            encode_columns(self.schema, {"x": x, "y": np.full(self.size, y)}) for y in (1, -1)
        ]
        self._known: dict[Query, Spectrum] = {}

    def spectrum(self, question: Question) -> Spectrum:
        """Compute the expectations of a question under all parities; exact."""
        query = question.query
        if query.kind not in _KINDS:
            raise InvalidQuery(f"kind: expected a predicate or a real, got {query.kind.name}")
        if query not in self._known:
            plus, minus = (evaluate_columns(query, columns) for columns in self._labelled)
            unit = 1 << query.frac if query.kind is QueryKind.REAL else 1
            spectrum = Spectrum(
                int((plus + minus).sum()), transformed(plus - minus), 2 * self.size * unit
            )
            self._known[query] = spectrum
        return self._known[query]

    def labelled_by(self, mask: int) -> Oracle:
        """Return the exact oracle of the examples that this parity labels; bit j is r_j."""
        if not 0 <= mask < self.size:
            raise InvalidParameter(f"mask: expected 0..{self.size - 1}, got {mask}")
        return _ParityOracle(self, mask)

    def fair(self) -> Oracle:
        """Return the oracle of examples whose labels are fair coins: it answers C_g."""
        return _ParityOracle(self, None)


@dataclass(frozen=True, slots=True, eq=False)
class _ParityOracle:
    """Exact oracle of one parity of a world, or of fair labels (mask None)."""

    world: ParityWorld
    mask: int | None

    def answer(self, batch: Batch) -> Answers:
        """The expectations."""
        answers = []
        for question in batch.questions:
            found = self.world.spectrum(question)
            moved = 0 if self.mask is None else int(found.correlations[self.mask])
            values = (float(Fraction(found.constant + moved, found.scale)),)
            answers.append(Answer(values, values, values))
        return tuple(answers)


def transformed(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Compute the Walsh-Hadamard transform: sum over x of f(x) (-1)^<r,x>, for all r.

    Both have shape (2^d,); they are whole numbers without rounding.
    """
    found = values.astype(np.int64)
    half = 1
    while half < len(found):
        pairs = found.reshape(-1, 2, half)
        found = np.stack((pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]), axis=1).reshape(-1)
        half *= 2
    return found
