"""Decisions: the conclusion that a learner draws from all values of an answer together.

A tolerance bounds the error of every value. A learner that compares values with each other needs
less: its conclusion can be right although some value is off by its tolerance or more. A decision
states which conclusion is drawn, so that a round can be planned for the conclusion and not for
every value. If all values keep the tolerance, the conclusion is right: statements about an oracle
that promises a tolerance hold with a decision, too.
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
