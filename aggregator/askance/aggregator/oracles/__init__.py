"""Oracles: sources of answers to a learner's questions.

Rules of the package:

- An oracle has one method: a batch in, one answer a question out. A learner cannot tell which one
  it talks to; a fleet of devices, driven by a session, is one more.
- A *valid* oracle is off by less than tau (KLNRS08 Definition 4.1, with tolerances open); what is
  random says with which probability it is valid. An adversary is valid always, and no help.
- The package knows learners, queries and the curator's mechanisms. Randomness is passed in, as a
  sampler or as words.
"""

from askance.aggregator.oracles.adversarial import (
    Adversary,
    CentreOracle,
    LazyOracle,
    RandomSignOracle,
    Thresholds,
    WrongSideOracle,
    usual_thresholds,
)
from askance.aggregator.oracles.central import CentralOracle, Part, central_rows
from askance.aggregator.oracles.checked import CheckedOracle
from askance.aggregator.oracles.empirical import EmpiricalOracle, Sampler
from askance.aggregator.oracles.exact import ExactOracle
from askance.aggregator.oracles.expectations import expectations
from askance.aggregator.oracles.labels import relabelled, with_free_labels
from askance.aggregator.oracles.masked_parity import (
    FairHalfOracle,
    FairOracle,
    MaskedParityOracle,
    lazy_masked_parity,
)
from askance.aggregator.oracles.noise import (
    ClassificationNoiseOracle,
    LearnedUnderNoise,
    learn_under_noise,
    noise_grid,
)
from askance.aggregator.oracles.oracle import Oracle, learn
from askance.aggregator.oracles.shares import Shares

__all__ = [
    "Adversary",
    "CentralOracle",
    "CentreOracle",
    "CheckedOracle",
    "ClassificationNoiseOracle",
    "EmpiricalOracle",
    "ExactOracle",
    "FairHalfOracle",
    "FairOracle",
    "LazyOracle",
    "LearnedUnderNoise",
    "MaskedParityOracle",
    "Oracle",
    "Part",
    "RandomSignOracle",
    "Sampler",
    "Shares",
    "Thresholds",
    "WrongSideOracle",
    "central_rows",
    "expectations",
    "lazy_masked_parity",
    "learn",
    "learn_under_noise",
    "noise_grid",
    "relabelled",
    "usual_thresholds",
    "with_free_labels",
]
