"""Estimation: from counts of reports to an answer.

Rules of the room:

- The input is a tally: integers, which neither order nor sharding of reports can change. The value
  of an answer is an exact fraction of it, rounded to a float once, at the end: the same counts give
  the same answer everywhere.
- Estimates are raw and unbiased; what is nicer to look at is another function of the answer.
- Intervals hold for every n (no normal approximation), and all of an answer's together.
"""

from askance.aggregator.estimation.answers import estimate
from askance.aggregator.estimation.blocks import alpha_of, joined
from askance.aggregator.estimation.influence import influence
from askance.aggregator.estimation.intervals import clopper_pearson, hoeffding
from askance.aggregator.estimation.statistics import (
    Inclusion,
    check_suits,
    inclusion,
    levels_of,
    scores,
    share_scores,
)

__all__ = [
    "Inclusion",
    "alpha_of",
    "check_suits",
    "clopper_pearson",
    "estimate",
    "hoeffding",
    "inclusion",
    "influence",
    "joined",
    "levels_of",
    "scores",
    "share_scores",
]
