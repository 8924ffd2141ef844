"""Oracles: sources of answers to a learner's questions.

Rules of the package:

- An oracle has one method: a batch in, one answer a question out. A learner cannot detect which one
  it talks to; a fleet of devices, driven by a session, is one more.
- A *valid* oracle is off by less than tau (KLNRS08 Definition 4.1, with tolerances open); what is
  random says with which probability it is valid. An adversary is valid always, and no help.
- The package knows learners and queries. Randomness is passed in, as a sampler or as words.
"""

from askance_aggregator.oracles.adversarial import (
    CentreOracle,
    LazyOracle,
    RandomSignOracle,
    WrongSideOracle,
)
from askance_aggregator.oracles.central import CentralOracle
from askance_aggregator.oracles.checked import CheckedOracle
from askance_aggregator.oracles.empirical import EmpiricalOracle
from askance_aggregator.oracles.exact import ExactOracle
from askance_aggregator.oracles.expectations import NoExpectation, expectations
from askance_aggregator.oracles.labels import relabelled, with_free_labels
from askance_aggregator.oracles.masked_parity import (
    FairHalfOracle,
    FairOracle,
    MaskedParityOracle,
    lazy_masked_parity,
)
from askance_aggregator.oracles.noise import (
    ClassificationNoiseOracle,
    learn_under_noise,
    noise_grid,
)
from askance_aggregator.oracles.oracle import Oracle, learn
from askance_aggregator.oracles.parity import ParityWorld

__all__ = [
    "CentralOracle",
    "CentreOracle",
    "CheckedOracle",
    "ClassificationNoiseOracle",
    "EmpiricalOracle",
    "ExactOracle",
    "FairHalfOracle",
    "FairOracle",
    "LazyOracle",
    "MaskedParityOracle",
    "NoExpectation",
    "Oracle",
    "ParityWorld",
    "RandomSignOracle",
    "WrongSideOracle",
    "expectations",
    "lazy_masked_parity",
    "learn",
    "learn_under_noise",
    "noise_grid",
    "relabelled",
    "with_free_labels",
]
