"""The learners of the catalogue, and what a learner of one's own is written with."""

from askance_aggregator.learners import *  # noqa: F403  # the same names, listed once, over there
from askance_aggregator.learners import __all__ as __all__
