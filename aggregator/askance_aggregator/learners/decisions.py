"""Decisions: the conclusion that a learner draws from all values of an answer together.

A tolerance bounds the error of every value. A learner that compares values with each other needs
less: its conclusion can be right although some value is off by its tolerance or more. A decision
states which conclusion is drawn, so that a round can be planned for the conclusion and not for
every value. If all values keep the tolerance, the conclusion is right: statements about an oracle
that promises a tolerance hold with a decision, too. (Of `Crossing` the sums of shares must keep
it, of `RatiosKept` the means.)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from askance_client.errors import InvalidParameter


@dataclass(frozen=True, slots=True)
class Decision:
    """A conclusion from all values of an answer.

    Args:
        values: number of values that it is drawn from, 1 or more; of a question that is asked in
            blocks, those of all blocks.
    """

    values: int

    def __post_init__(self) -> None:
        if self.values < 1:
            raise InvalidParameter(f"decision: expected 1 value or more, got {self.values}")

    @property
    def shown_by_values(self) -> bool:
        """Return whether it is right where every value's own interval is within the tolerance."""
        return True


@dataclass(frozen=True, slots=True)
class SharesKept(Decision):
    """Every share of a category is within the tolerance, however few cells are left of it.

    A learner that goes on with fewer cells than it may asks fewer values. Its question then has the
    chance of an error of all `values`, or it would need more users than were planned.

    Args:
        values: cells that the question has at most, as it is rehearsed.
    """


@dataclass(frozen=True, slots=True)
class SignsListed(Decision):
    """The signs of all values are those of one of the `length` most likely patterns.

    Patterns of signs are ranked by the sum of |value| over the values whose sign they turn, least
    first (`likely_patterns`). Every value is tau or more away from zero.
    """

    length: int

    def __post_init__(self) -> None:
        Decision.__post_init__(self)
        if self.length < 1:
            raise InvalidParameter(f"decision: expected a list of 1 or more, got {self.length}")


@dataclass(frozen=True, slots=True)
class OneStandsOut(Decision):
    """The place and the sign of the only value that is not zero.

    That value is 2 tau or more away from zero, and is read as the one of greatest magnitude.
    """


@dataclass(frozen=True, slots=True)
class AssociationFound(Decision):
    """Two columns are not independent, by a chi-square test of their joint shares.

    The tolerance is `part` of the length of the vector of p_ij - p_i p_j, which the test is to
    find. No value needs to be that exact: the length adds up over all cells.

    Args:
        degrees: of freedom of the test, 1 or more.
        level: of the test: its chance to find an association that is not there, in (0, 1).
    """

    degrees: int
    level: Fraction
    part: Fraction = Fraction(1, 4)

    def __post_init__(self) -> None:
        Decision.__post_init__(self)
        if self.degrees < 1 or not 0 < self.level < 1:
            raise InvalidParameter(
                "decision: expected 1 degree of freedom or more and a level in (0, 1), got"
                f" {self.degrees} and {self.level}"
            )


@dataclass(frozen=True, slots=True)
class Crossing(Decision):
    """Sides of some levels on which a value, or each sum of shares, lies; near a level either.

    Of a predicate or a number: whether the value is below each level, if it is tau or more away
    from it. Of a category, whose cells are in order: with P_t the share of the first t cells and s
    that of all cells, a binary search over the signs of P_t - level s for each level; a sign must
    be right where that is tau or more away from zero.

    Args:
        levels: at least one; of shares in (0, 1), of a number in its unit.
        missing: whether the last cell is of the users without a value. It is in no sum, and s is
            the share of the others.
    """

    levels: tuple[Fraction, ...]
    missing: bool = False

    def __post_init__(self) -> None:
        Decision.__post_init__(self)
        if not self.levels:
            raise InvalidParameter("decision: expected at least one level, got none")

    @property
    def shown_by_values(self) -> bool:
        """Return whether there is one value: sums of shares have no interval."""
        return self.values == 1

    @property
    def cells(self) -> int:
        """Number of cells in order; 2 of a predicate or a number."""
        return 2 if self.values == 1 else self.values - int(self.missing)

    @property
    def signs(self) -> int:
        """Bound on the signs of which one must be wrong for the conclusion to be wrong."""
        # A binary search over k cells has D = ceil(log2 k) signs. Signs within tau of a level may
        # be either. Until the first of them the search without a wrong sign has one way; then it
        # has a way on each side, and from there on each way meets at most one sign a step that must
        # be right. So there are at most D of them, or 2 (D - 1) where one is near.
        depth = (self.cells - 1).bit_length()
        return len(self.levels) * max(depth, 2 * (depth - 1))


@dataclass(frozen=True, slots=True)
class RatiosKept(Decision):
    """The mean of each of some numbers, over the users who have it, is within the tolerance.

    Of a vector on [-1, 1], whose first `pairs` components are the numbers and the next ones the
    same with the other sign; users without a number have -1 at both. With A and B their means, the
    share of users who have it is (A + B + 2) / 2, and its mean over them (A - B) / (A + B + 2). The
    components after these are numbers that all users have, each to be within the tolerance.

    Args:
        pairs: at least 1; at most half of the values.
        present: the promised share of users who have each number, at least.
    """

    pairs: int
    present: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        Decision.__post_init__(self)
        if not 1 <= 2 * self.pairs <= self.values or not 0 < self.present <= 1:
            raise InvalidParameter(
                f"decision: expected 1..{self.values // 2} pairs and a share in (0, 1], got"
                f" {self.pairs} and {self.present}"
            )

    @property
    def shown_by_values(self) -> bool:
        """Return False: two components that are exact enough make a mean that need not be."""
        return False
