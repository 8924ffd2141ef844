"""Estimation: from counts of reports to an answer.

Rules of the package:

- The input is a tally: integers, which neither order nor sharding of reports can change. The value
  of an answer is an exact fraction of it, rounded to a float once, at the end: the same counts give
  the same answer everywhere.
- Estimates are raw and unbiased; what is nicer to look at is another function of the answer.
- Intervals hold for every n (no normal approximation), and all of an answer's together.
"""

from askance_aggregator.estimation.answers import alpha_of, estimate, joined
from askance_aggregator.estimation.designed import prior_points, prior_weights
from askance_aggregator.estimation.deviations import Deviations, deviations
from askance_aggregator.estimation.influence import influence, share_of_numbers
from askance_aggregator.estimation.intervals import clopper_pearson, hoeffding, shares_apart
from askance_aggregator.estimation.landing import relative_landing
from askance_aggregator.estimation.laws import ReportsLaw, TalliedReports, share_covariance
from askance_aggregator.estimation.present import (
    Cases,
    PresentLaw,
    present_law,
    scale_of,
    score_bias,
)
from askance_aggregator.estimation.sign_pairs import MeansLine, SignPair
from askance_aggregator.estimation.statistics import (
    Decode,
    bias_of,
    check_decode,
    check_suits,
    inverse_scores,
    known_scores,
    levels_of,
    recorded_question,
    scores,
)

__all__ = [
    "Cases",
    "Decode",
    "Deviations",
    "MeansLine",
    "PresentLaw",
    "ReportsLaw",
    "SignPair",
    "TalliedReports",
    "alpha_of",
    "bias_of",
    "check_decode",
    "check_suits",
    "clopper_pearson",
    "deviations",
    "estimate",
    "hoeffding",
    "influence",
    "inverse_scores",
    "joined",
    "known_scores",
    "levels_of",
    "present_law",
    "prior_points",
    "prior_weights",
    "recorded_question",
    "relative_landing",
    "scale_of",
    "score_bias",
    "scores",
    "share_covariance",
    "share_of_numbers",
    "shares_apart",
]
