"""Into which blocks a vector question is divided: s of t components to each user.

A user's epsilon is spent on s of the t components, by one hypercube response; the t / s blocks go
to disjoint cohorts. With m_s the agreement of the best response of s components, a component has

    n x variance = (t / s) / m_s^2    (second moment, scaled to [-1, 1]; n users in all),

so that small s wins at small eps (one component, by the cohort's public coin) and a larger one as
eps grows. There is no third way: splitting eps over s components is a response whose reports are
patterns, too, and of less agreement at the same loss. A vector whose components are asked of all
users together (SPLIT) is one block.

The two components of a number that may be missing (`RatiosKept`) are told by different users: the
first ones of all such numbers are cut into blocks, the second ones alike, then the other numbers.

Of a vector whose length is promised one codebook (`random_codebook`) may tell all components at
once, with the variance of PrivUnit: it is asked whole where that has less variance.

Source: Duchi, Jordan and Wainwright 2018 (s = 1 and s = t); Chen, Kairouz and Ozgur 2020 (SQKR:
    s near eps).
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from math import ceil

from askance_aggregator.families import (
    CodebookFamily,
    HypercubeFamily,
    hypercube_response,
    random_codebook,
)
from askance_aggregator.learners import Decision, Question, RatiosKept
from askance_aggregator.queries import block_of
from askance_client.queries import MAX_COMPONENTS, QueryKind
from askance_client.randomizers import RandomCodebook

WORTH = Fraction(1, 100)  # what less variance is worth a larger block
ALL_SIZES = 16  # up to it every block size is considered, beyond it powers of two


def blocks_of(question: Question, nano_nats: int) -> tuple[Question, ...]:
    """The parts in which a question is asked, each by users of its own; of no vector, itself.

    Utility: n x variance is within 1 % of the least among the sizes 1..16, powers of two and all,
        by exact comparison; the smallest size that is, for its requests are smaller. The sizes of
        blocks differ by at most one.
    """
    if question.query.kind is not QueryKind.VECTOR or codebook_for(question, nano_nats):
        return (question,)
    return tuple(
        Question(
            block_of(question.query, first + start, first + start + size),
            question.tau,
            question.cell_mass,
            decision=decision,
        )
        for first, components, decision in _runs(question)
        for start, size in laid_out(components, -(-components // block_size(components, nano_nats)))
    )


def _runs(question: Question) -> Iterator[tuple[int, int, Decision | None]]:
    """Return the runs of components that are cut into blocks: start, length and decision."""
    components, decision = question.query.components, question.decision
    if not isinstance(decision, RatiosKept):
        yield 0, components, decision
        return
    yield 0, decision.pairs, decision
    yield decision.pairs, decision.pairs, decision
    if components > 2 * decision.pairs:
        yield 2 * decision.pairs, components - 2 * decision.pairs, None


def codebook_for(question: Question, nano_nats: int) -> RandomCodebook | None:
    """Return the codebook for a vector of a promised length; None if sign patterns vary less.

    Both are compared by n times the second moment of a component (`precision.n_variance`).
    """
    if question.length is None:
        return None
    components = question.query.components
    radius = ceil(question.length * (1 << question.query.frac))
    book = random_codebook(components, radius, nano_nats)
    length = Fraction(radius, 1 << question.query.frac)
    own = length * length * Fraction(CodebookFamily(book).component_variance)
    blocks = block_variance(components, block_size(components, nano_nats), nano_nats)
    return book if own < (question.spread / 2) ** 2 * blocks else None


@lru_cache(maxsize=1024)
def block_size(components: int, nano_nats: int) -> int:
    """Choose the size of the largest block: the least that costs at most 1 % more than the best."""
    sizes = {min(size, components) for size in range(1, ALL_SIZES + 1)}
    sizes |= {1 << power for power in range(MAX_COMPONENTS.bit_length()) if 1 << power < components}
    sizes.add(components)
    variances = {size: block_variance(components, size, nano_nats) for size in sizes}
    limit = min(variances.values()) * (1 + WORTH)
    return min(size for size, variance in variances.items() if variance <= limit)


@lru_cache(maxsize=4096)
def block_variance(components: int, size: int, nano_nats: int) -> Fraction:
    """Return n times a component's variance, n the users of all blocks of at most this size."""
    # Each block gets users in proportion to its own 1 / m^2, so that these add up.
    parts = -(-components // size)
    sizes = [length for _, length in laid_out(components, parts)]
    return sum(
        (
            sizes.count(length)
            / HypercubeFamily(hypercube_response(length, nano_nats)).agreement ** 2
            for length in set(sizes)
        ),
        Fraction(),
    )


def laid_out(components: int, parts: int) -> Iterator[tuple[int, int]]:
    """Return the start and the length of each part; the first ones are one longer."""
    length, longer = divmod(components, parts)
    start = 0
    for part in range(parts):
        size = length + (part < longer)
        yield start, size
        start += size
