"""Oracles: what a learner's questions are answered by.

Rules of the room:

- An oracle has one method: a batch in, one answer a question out. A learner cannot tell which one
  it talks to; a fleet of devices, driven by a session, is one more.
- A *valid* oracle is off by less than tau (KLNRS08 Definition 4.1, with tolerances open); what is
  random says with which probability it is valid.
- The room knows learners and queries. Randomness is passed in, as a sampler.
"""

from askance.aggregator.oracles.empirical import EmpiricalOracle, Sampler
from askance.aggregator.oracles.exact import ExactOracle
from askance.aggregator.oracles.expectations import expectations
from askance.aggregator.oracles.oracle import Oracle, learn

__all__ = [
    "EmpiricalOracle",
    "ExactOracle",
    "Oracle",
    "Sampler",
    "expectations",
    "learn",
]
