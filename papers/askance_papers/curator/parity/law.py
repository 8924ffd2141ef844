"""The output distribution, exactly, for data sets that are small enough to go through."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import product

import numpy as np

from askance_client.errors import InvalidParameter
from askance_papers.curator.parity.examples import ParityExamples
from askance_papers.curator.parity.gf2 import Solutions, solve, words_of
from askance_simulation.populations.labelled_bits import Parity

_MOST = 16  # examples, and unknowns: 2^16 systems, 2^16 solutions


def law(examples: ParityExamples, keep: Fraction, runs: int) -> Mapping[Parity | None, Fraction]:
    """Compute the exact law of `PrivateParity` by solving every set of kept examples.

    Args:
      examples: at most 16, with d at most 16.
      keep: p. Any probability: what is not private has a law too.
      runs: k.

    Returns:
      The probabilities of all outputs that have one, None (nothing) among them; they sum to 1.

    Raises:
      InvalidParameter: more than can be gone through, or no probability.
    """
    if len(examples) > _MOST or examples.d > _MOST:
        raise InvalidParameter(
            f"law: expected at most {_MOST} examples and unknowns,"
            f" found {len(examples)} and {examples.d}"
        )
    if not 0 <= keep <= 1 or runs < 1:
        raise InvalidParameter("law: expected a probability to keep and at least one run")
    once: defaultdict[Parity | None, Fraction] = defaultdict(Fraction)
    once[None] = Fraction(1, 2)
    for kept in product((False, True), repeat=len(examples)):
        chance = keep ** sum(kept) * (1 - keep) ** (len(kept) - sum(kept)) / 2
        solutions = solve(examples.rows[np.array(kept)], examples.d)
        if solutions is None:
            once[None] += chance
            continue
        for solution in _parities(solutions):
            once[solution] += chance / (1 << examples.d - solutions.rank)
    silent = once.pop(None)
    passes = sum((silent**earlier for earlier in range(runs)), Fraction(0))
    return {None: silent**runs} | {said: chance * passes for said, chance in once.items() if chance}


def _parities(solutions: Solutions) -> Iterator[Parity]:
    free = [place for place in range(solutions.d) if place not in set(solutions.pivots.tolist())]
    for bits in product((0, 1), repeat=len(free)):
        assigned = sum(bit << place for bit, place in zip(bits, free, strict=True))
        words = np.zeros(words_of(solutions.d + 1), dtype=np.uint64)
        words[0] = assigned
        yield Parity(tuple(solutions.with_free(words).tolist()))
