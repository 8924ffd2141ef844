"""Outer guarantee of one result: which (epsilon, delta) readers of its tallies are told.

Statements and proofs: docs/math/two_guarantees.md; its numbers are cited below.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import ceil, fsum

from askance_aggregator.amplification.accountant import delta_ends, epsilon_ends, local_epsilon
from askance_aggregator.amplification.ends import Curve
from askance_aggregator.amplification.loss_pairs import LossPair, composed_epsilon, pair_of
from askance_aggregator.composition.events import outward, upward
from askance_client.errors import InvalidParameter
from askance_client.randomizers import Randomizer

LIARS = Fraction(1, 100)
"""Share of a batch's answers that are assumed to lie, or to be known to the reader."""

DELTA = Fraction(1, 1_000_000)
"""The most delta that a person is charged over all releases of an account."""

_LEAST_COMPOSED = 1000
"""Honest answers from which curves of one cohort are composed: of fewer, sums are as good."""

_STEPS = tuple(Fraction(each) for each in ("3e-3", "1e-3", "1e-4"))  # deltas of single steps

HOLDS_FOR = "replace-one in a user's record, given who answers"


@dataclass(frozen=True, slots=True)
class OuterBatch:
    """Fresh answers of one group: one query, one randomizer, one epoch, one closing.

    Args:
        randomizer: of the question.
        answers: fresh answers of the smallest atom of the tallies that are shown.
        cohort: batches of one cohort have the same users; users of different ones are different.
        known: reports among them that are disclosed or the reader's own.
        choices: V of Theorem 4: tallies by which the atom may have been divided.
    """

    randomizer: Randomizer
    answers: int
    cohort: int = 0
    known: int = 0
    choices: int = 1


@dataclass(frozen=True, slots=True)
class Outer:
    """Guarantee towards readers of tallies.

    Args:
        epsilon: nats, an upper end, below the local epsilon of the same answers.
        delta: of all batches together.
        answers: those of the smallest batch, liars included.
        liars: share of them that is assumed to lie.
        holds_for: the neighbours, in words.
        other_tallies: tallies of the same answers that are read too, beside those of a result.
    """

    epsilon: float
    delta: Fraction
    answers: int
    liars: Fraction = LIARS
    holds_for: str = HOLDS_FOR
    other_tallies: int = 0

    def to_json(self) -> dict[str, float | int | str]:
        """Return the value as JSON's `outer`; `other_tallies` if there are any."""
        other = {"other_tallies": self.other_tallies} if self.other_tallies else {}
        return {
            "epsilon": self.epsilon,
            "delta": float(self.delta),
            "answers": self.answers,
            "liars": float(self.liars),
            "holds_for": self.holds_for,
            **other,
        }


def delta_for(enrolled: int, fixed: Fraction = DELTA) -> Fraction:
    """Return the delta of a person over all releases: at most 10^-6 and 1 / (100 enrolled).

    An account fixes it at its first release. A result states that one, or what follows from the
    devices that are enrolled by then, if that is less.

    Args:
        enrolled: devices of the aggregator, in any study or none; 1 or more.
        fixed: by the account, if it has one.

    Raises:
        InvalidParameter: fewer than one device is enrolled.
    """
    if enrolled < 1:
        raise InvalidParameter(f"enrolled: expected 1 or more, got {enrolled}")
    return min(fixed, DELTA, Fraction(1, 100 * enrolled))


def honest(answers: int, liars: Fraction = LIARS, known: int = 0) -> int:
    """Return the number of answers that hide a user's: all less liars, and those that are known.

    The user's own is among them; 0 if none is left.

    Args:
        answers: of the batch, 0 or more.
        liars: share of the answers, 0 .. 1.
        known: reports that are disclosed or the reader's own, 0 or more.
    """
    if not 0 <= liars <= 1:
        raise InvalidParameter(f"liars: expected a share of 0 .. 1, got {float(liars):g}")
    return max(0, answers - ceil(liars * answers) - known)


def cohorts_of(batches: Iterable[OuterBatch]) -> list[list[OuterBatch]]:
    """Return the batches of each cohort together."""
    cohorts: dict[int, list[OuterBatch]] = {}
    for batch in batches:
        cohorts.setdefault(batch.cohort, []).append(batch)
    return list(cohorts.values())


def decisive_cohorts(cohorts: Iterable[Sequence[OuterBatch]]) -> list[tuple[OuterBatch, ...]]:
    """Return a cohort per list of randomizers, which bounds all that have this list.

    Of each batch the fewest answers, the most that are known and the most choices count: more
    answers never hurt (Lemma 1), fewer choices neither.
    """
    found: dict[tuple[Randomizer, ...], tuple[OuterBatch, ...]] = {}
    for cohort in cohorts:
        randomizers = tuple(batch.randomizer for batch in cohort)
        found[randomizers] = tuple(
            replace(
                a,
                answers=min(a.answers, b.answers),
                known=max(a.known, b.known),
                choices=max(a.choices, b.choices),
            )
            for a, b in zip(found.get(randomizers, cohort), cohort, strict=True)
        )
    return list(found.values())


def outer_of(
    batches: Sequence[OuterBatch],
    delta: Fraction,
    liars: Fraction = LIARS,
    chosen: Container[int] = (),
) -> Outer | None:
    """Bound what readers of these batches' tallies learn of any one user.

    Batches of one cohort compose: by the sum of their epsilons at equal parts of delta, or by their
    curves if that is less. Their randomizers are fixed before any of them is answered, as those of
    a round are; those of the cohorts in `chosen` may follow from earlier tallies, and are summed.
    Over cohorts, which are disjoint, the largest counts (Lemma 2).

    Returns:
        None where no user has less than the local epsilon: then that one alone is said.
    """
    if not batches:
        return None
    epsilon = 0.0
    for together in cohorts_of(batches):
        local = local_sum(together)
        is_chosen = together[0].cohort in chosen
        spent = spent_epsilon(together, delta, liars, is_chosen=is_chosen)
        if spent >= local:
            return None
        epsilon = max(epsilon, spent)
    return Outer(epsilon, delta, min(batch.answers for batch in batches), liars)


def local_sum(together: Iterable[OuterBatch]) -> float:
    """Return the epsilon of a user's answers to these batches as reports."""
    return fsum(local_epsilon(batch.randomizer) for batch in together)


def spent_epsilon(
    together: Sequence[OuterBatch], delta: Fraction, liars: Fraction, *, is_chosen: bool = False
) -> float:
    """Return the epsilon of batches that have the same users: of one, its own."""
    share = delta / len(together)
    batches = [(b.randomizer, honest(b.answers, liars, b.known)) for b in together]
    each = [
        upper_epsilon(*batch, share / of.choices)
        for batch, of in zip(batches, together, strict=True)
    ]
    spent = outward(fsum(each))
    hidden = min(answers for _, answers in batches)
    divided = any(batch.choices > 1 for batch in together)  # a bound at its delta, and no curve
    if len(together) == 1 or hidden < _LEAST_COMPOSED or divided or is_chosen:
        return spent
    counts = Counter(batches)
    steps = [(_few_points(*batch, delta), count) for batch, count in counts.items()]
    return min(spent, composed_epsilon(steps, delta))


@lru_cache(maxsize=256)
def _few_points(randomizer: Randomizer, answers: int, delta: Fraction) -> LossPair:
    """Return a curve's pair by seven points: a tenth above `curve`'s, in a tenth of its time."""
    # The points are where steps of a composition at `delta` lose most.
    local = local_epsilon(randomizer)
    epsilons, deltas = [0.0], [float(delta_ends(randomizer, answers, Fraction(0)).upper)]
    for share in sorted({*_STEPS, 10 * delta, delta, delta / 100}, reverse=True):
        epsilon = upper_epsilon(randomizer, answers, share)
        if epsilons[-1] < epsilon < local:
            epsilons.append(epsilon)
            deltas.append(min(deltas[-1], upward(share)))
    return pair_of(Curve((*epsilons, local), (*deltas, 0.0)))


@lru_cache(maxsize=4096)
def upper_epsilon(randomizer: Randomizer, answers: int, delta: Fraction) -> float:
    """Return the upper end of a batch's epsilon; of fewer than two answers the local one."""
    if answers < 2 or delta <= 0:
        return local_epsilon(randomizer)
    return min(epsilon_ends(randomizer, answers, delta).upper, local_epsilon(randomizer))
