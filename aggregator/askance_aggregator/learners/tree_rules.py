"""Settings of a tree by arithmetic: the size of its joint table, and whether to grow it at all.

Users of open tolerances are divided about evenly over all questions: F screens, one per field, and
C equal questions for the joint table, C the number of fields, at least 8. So a share of a screen
has the deviation r = sqrt(v (F + C) / n), n the users and v n times the variance of one share, and
a share of the joint table s = r / sqrt(C). Equal questions also show how much their answers vary.
The figures were chosen once on Adult (7 and 14 fields, 26,049 and 10^6 users, epsilon 0.5 to 8),
whose error is flat about them.

- Size: as many cells P as keep s sqrt(P), the error of a difference of two classes over half of
  the cells, below 0.04, between 4 and 256. A promised tolerance tau adds up as badly as it can: P
  is then 0.1 / tau.
- Decision: up to r = 0.03 the tree is concluded; from 0.08 on not even one field's table
  can be told from noise, and the most frequent class is; between, a fifth of the users tell which
  is better.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

from askance_aggregator.learners.constant_checks import Doubt

FEWEST_CELLS = 4
MOST_CELLS = 256
MOST_ALLOWED = 4096  # that an analyst may ask for
MOST_COPIES = 4096  # likewise, of the question for it
DOUBT = Doubt(clear=0.03, hopeless=0.08)
_ERROR = 0.04  # of a difference of two classes over half of the joint cells
_PROMISED = Fraction(1, 10)  # likewise, the sum of promised tolerances
_PLANNED = 0.003  # s that a plan without a population asks users for, with that of the sample
_SAMPLE = 1 / 16  # p (1 - p) of a leaf of 7 % of the users, whom no randomizer hides
_FEWEST_COPIES = 8  # whose variance is off by about a quarter


def table_copies(fields: int) -> int:
    """Return C, the number of questions for the joint table."""
    return max(fields, _FEWEST_COPIES)


@dataclass(frozen=True, slots=True)
class TreeNoise:
    """Noise of a study.

    Args:
        variance: v, n times the variance of a share.
        fields: F.
        users: n.
    """

    variance: float
    fields: int
    users: int

    @classmethod
    def planned(cls, variance: float, fields: int) -> TreeNoise:
        """Return the noise with as many users as a plan without a population asks for.

        Where answers are almost exact, it is for the variation of the users themselves.
        """
        copies = table_copies(fields)
        wanted = (variance + _SAMPLE) * (fields + copies) / (copies * _PLANNED**2)
        return cls(variance, fields, max(round(wanted), 1))

    @property
    def of_screen(self) -> float:
        """Deviation r of a share of a field's table; infinite without users."""
        if self.users < 1:
            return float("inf")
        return sqrt(self.variance * (self.fields + table_copies(self.fields)) / self.users)

    @property
    def of_share(self) -> float:
        """Deviation s of a share of the joint table."""
        return self.of_screen / sqrt(table_copies(self.fields))

    @property
    def cells(self) -> int:
        """Number of cells of the joint table."""
        if self.of_share == 0:
            return MOST_CELLS
        return round(min(max((_ERROR / self.of_share) ** 2, FEWEST_CELLS), MOST_CELLS))

    @property
    def decision(self) -> str:
        """The decision about the tree."""
        return str(DOUBT.decision(self.of_screen))


def cells_within(tau: Fraction) -> int:
    """Return the number of cells of a joint table whose shares are promised within tau."""
    return min(max(int(_PROMISED / tau), FEWEST_CELLS), MOST_CELLS)
