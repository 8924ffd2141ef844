"""Mechanisms of the curator: Laplace and Gaussian noise, and the choice of a candidate.

Rules of the package:

- What is randomised is a whole number. Real values are put on a stated grid first, and the
  sensitivity is rounded so that this cannot break the guarantee (`grid` proves it).
- Sensitivities and bounds are stated by the caller and never taken from the data; records that do
  not keep to them are an error, before anything is drawn.
- A mechanism has an `event`, which an accountant charges.
"""

from askance_aggregator.oracles.laplace import Laplace
from askance_papers.curator.mechanisms.additive import (
    Gaussian,
    gaussian,
    gaussian_at,
    laplace,
    laplace_at,
)
from askance_papers.curator.mechanisms.agnostic import (
    Learned,
    Losses,
    learn_agnostically,
    sample_size,
)
from askance_papers.curator.mechanisms.grid import fine_step
from askance_papers.curator.mechanisms.hypotheses import (
    BitConjunction,
    Conjunctions,
    FiniteClass,
    Hypothesis,
    Listed,
    Mistakes,
    Parities,
    ScoredAtOnce,
    Stump,
    Stumps,
    WeightedClass,
    even_cuts,
    thresholds,
)
from askance_papers.curator.mechanisms.queries import (
    CuratorQuery,
    clipped,
    histogram,
    means,
    predicate,
    sums,
)
from askance_papers.curator.mechanisms.release import Additive, Calibration, Release
from askance_papers.curator.mechanisms.selection import (
    Candidates,
    Exponential,
    PermuteAndFlip,
    ScoredCandidates,
    Selection,
)
from askance_papers.curator.mechanisms.validated_parity import (
    ValidatedParity,
    ValidatedSizes,
    choice_examples,
    mistakes,
    validated_runs,
)
from askance_simulation.populations.labelled_bits import Parity

__all__ = [
    "Additive",
    "BitConjunction",
    "Calibration",
    "Candidates",
    "Conjunctions",
    "CuratorQuery",
    "Exponential",
    "FiniteClass",
    "Gaussian",
    "Hypothesis",
    "Laplace",
    "Learned",
    "Listed",
    "Losses",
    "Mistakes",
    "Parities",
    "Parity",
    "PermuteAndFlip",
    "Release",
    "ScoredAtOnce",
    "ScoredCandidates",
    "Selection",
    "Stump",
    "Stumps",
    "ValidatedParity",
    "ValidatedSizes",
    "WeightedClass",
    "choice_examples",
    "clipped",
    "even_cuts",
    "fine_step",
    "gaussian",
    "gaussian_at",
    "histogram",
    "laplace",
    "laplace_at",
    "learn_agnostically",
    "means",
    "mistakes",
    "predicate",
    "sample_size",
    "sums",
    "thresholds",
    "validated_runs",
]
