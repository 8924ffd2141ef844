"""Numbers and cells through yes/no questions (Bshouty and Feldman 2002)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from askance_aggregator.learners import Answer, Answers, Batch, Presence, Question
from askance_aggregator.oracles import Oracle
from askance_aggregator.oracles.oracle import schema_of
from askance_aggregator.queries import (
    each_component,
    index_of,
    maximum,
    minimum,
    predicate,
    presence,
    real,
    round_to,
)
from askance_client.errors import InvalidQuery
from askance_client.queries import Expression, Kind, Query, QueryKind, constant

_FINEST = 40  # the finest grid of an expression


@dataclass(frozen=True, slots=True)
class Digits:
    """A number's leading binary digits, as predicates.

    value = offset + sum of weight_k digit_k, off by at most `rest` on either side.
    """

    predicates: tuple[Query, ...]
    weights: tuple[Fraction, ...]
    offset: Fraction
    rest: Fraction


class BooleanOracle:
    """Answers any question with an oracle that takes predicates only.

    Utility: valid within tau if the inner oracle is valid. A number with values in a range of
    length s takes log2(s/tau) + O(1) predicates of tolerance at least tau/(4 s), all fixed
    beforehand; a category one a cell, a signed value two of tau/2.

    Source: Bshouty and Feldman 2002, as KLNRS08 section 4.1 uses it.
    """

    def __init__(self, predicates: Oracle) -> None:
        self.schema = schema_of(predicates)
        self._predicates = predicates

    def answer(self, batch: Batch) -> Answers:
        """Answer each question from one batch of predicates."""
        parts = [_parts(question) for question in batch.questions]
        told = iter(self._predicates.answer(Batch(q for part in parts for q in part.asked)))
        answers = []
        for question, part in zip(batch.questions, parts, strict=True):
            shares = [Fraction(next(told).value) for _ in part.asked]
            values = tuple(
                float(offset + sum((w * s for w, s in zip(row, shares, strict=True)), Fraction()))
                for offset, row in part.sums
            )
            answers.append(_ratio(question, values) if question.over_present else _plain(values))
        return tuple(answers)


def _plain(values: tuple[float, ...]) -> Answer:
    return Answer(values, values, values)


def _ratio(question: Question, values: tuple[float, ...]) -> Answer:
    """Divide what users' numbers are above the least one by the share who have a number."""
    above, share = values
    low, high = (float(bound) for bound in question.bounds)
    value = low + above / share if share > 0 else (low + high) / 2
    return Answer((value,), (value,), (value,), present=Presence(share, share, share))


@dataclass(frozen=True, slots=True)
class _Parts:
    """Predicates to ask, and each value as an offset plus a weighted sum of their shares."""

    asked: tuple[Question, ...]
    sums: tuple[tuple[Fraction, tuple[Fraction, ...]], ...]


def _parts(question: Question) -> _Parts:
    query, tau = question.query, question.working_tau
    if query.kind is QueryKind.PREDICATE:
        return _Parts((question,), ((Fraction(0), (Fraction(1),)),))
    if question.over_present:
        return _present_parts(question)
    if query.kind is QueryKind.REAL:
        return _number_parts(query, tau)
    if query.kind is QueryKind.VECTOR:
        return _vector_parts(query, tau)
    index = query.expression
    if index.kind is Kind.CATEGORY:
        index = index_of(index)
    signed = query.kind is QueryKind.SIGNED
    used = query.cells - 1 if signed else query.cells
    cells = [predicate(index == cell, int(query.default == cell)) for cell in range(used)]
    asked = tuple(Question(cell, tau / 2 if signed else tau) for cell in cells)
    none = Fraction(0)
    if signed:
        return _Parts(
            asked,
            tuple(
                (none, tuple(Fraction((c == 2 * v) - (c == 2 * v + 1)) for c in range(used)))
                for v in range(question.values)
            ),
        )
    return _Parts(
        asked, tuple((none, tuple(Fraction(c == v) for c in range(used))) for v in range(used))
    )


def _number_parts(query: Query, tau: Fraction) -> _Parts:
    digits = digits_of(query, tau / 2)
    each = (tau - digits.rest) / sum(digits.weights)
    asked = tuple(Question(one, min(each, Fraction(1))) for one in digits.predicates)
    return _Parts(asked, ((digits.offset, digits.weights),))


def _present_parts(question: Question) -> _Parts:
    """Ask numbers above the least one, 0 for a missing one, and the share who have a number."""
    # With errors of less than 4/9 of tau q in the first and of min(4/9 tau/range, 1/10) q in the
    # second, q the promised share, the ratio is off by less than 8/9 tau q / (9/10 q) < tau.
    query, least = question.query, question.present
    low, high = question.bounds
    tolerance = question.working_tau * least * Fraction(4, 9)
    numbers = _number_parts(real(query.expression, low, high, low), tolerance)
    ((offset, weights),) = numbers.sums
    share = Question(presence(query), min(tolerance / (high - low), least / 10))
    none = Fraction(0)
    return _Parts(
        (*numbers.asked, share),
        ((offset - low, (*weights, none)), (none, (*[none] * len(weights), Fraction(1)))),
    )


def _vector_parts(query: Query, tau: Fraction) -> _Parts:
    """Encode each component as a number, by weights that are zero at the others' digits."""
    ends = [Fraction(end, 1 << query.frac) for end in (query.low, query.high, query.default)]
    numbers = [
        _number_parts(real(_on_grid(one, query.frac), *ends), tau)
        for one in each_component(query.expression)
    ]
    asked = tuple(question for number in numbers for question in number.asked)
    none, sums, before = Fraction(0), [], 0
    for number in numbers:
        ((offset, weights),) = number.sums
        after = len(asked) - before - len(weights)
        sums.append((offset, (none,) * before + weights + (none,) * after))
        before += len(weights)
    return _Parts(asked, tuple(sums))


def _on_grid(expression: Expression, frac: int) -> Expression:
    """The same number on a grid that is at least as fine."""
    return expression if expression.frac == frac else expression + constant(0, frac)


def digits_of(query: Query, rest: Fraction) -> Digits:
    """Return enough leading digits of a number that the remainder is at most `rest` either way."""
    # With u = (value - low) / 2^s in [0, 1) and F_k = u rounded down to a multiple of 2^-k, digit k
    # is F_k != F_(k-1), and weighs 2^(s-k). Half of what the last digit leaves out is in the
    # offset.
    if query.kind is not QueryKind.REAL:
        raise InvalidQuery(f"digits expect a REAL query, found {query.kind.name}")
    grid, span = query.frac, query.high - query.low
    bits = span.bit_length()  # all of them: 2^bits grid units are more than the span
    s = bits - grid
    used = next(k for k in range(1, bits + 1) if k == bits or Fraction(2) ** (s - k - 1) <= rest)
    left = Fraction(2) ** (s - used) - Fraction(1, 1 << grid)  # the digits that are left out
    u = _unit(query, bits)
    missing = query.default - query.low
    predicates, floors = [], constant(0)
    for k in range(1, used + 1):
        down = _down(u, k)
        predicates.append(predicate(down != floors, missing >> (bits - k) & 1))
        floors = down
    return Digits(
        tuple(predicates),
        tuple(Fraction(2) ** (s - k) for k in range(1, used + 1)),
        Fraction(query.low, 1 << grid) + left / 2,
        left / 2,
    )


def _unit(query: Query, bits: int) -> Expression:
    """(value - low) / 2^bits in grid units, in [0, 1): a number on the grid of 2^-bits."""
    ends = (Fraction(end, 1 << query.frac) for end in (query.low, query.high))
    low, high = (constant(end, query.frac) for end in ends)
    above = minimum(maximum(query.expression, low), high) - low
    shift = bits - query.frac
    if shift >= 0:
        if bits > _FINEST:
            raise InvalidQuery("digits expect a coarser grid: round_to the value first")
        return above * constant(Fraction(1, 1 << shift), shift) if shift else above
    return above * (1 << -shift)


def _down(u: Expression, digits: int) -> Expression:
    """Round u down to a multiple of 2^-digits (`round_to` rounds half up)."""
    if digits >= u.frac:
        return u
    return round_to(u - constant(Fraction(1, 1 << (digits + 1)), digits + 1), digits)
