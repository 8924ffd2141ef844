"""Local algorithms and statistical query algorithms, each run in place of the other.

Rules of the package:

- Whether a simulation is right is a statement about the law of what comes out. So the laws are here
  too, as exact fractions (`laws`), and the simulations use the same numbers as they do.
- A local algorithm knows users by number and reports by their bytes; it sees no record. It is a
  generator without I/O and randomness, as a learner is.
- Everything random is drawn from words that are passed in.

Theory of operation. *From queries to devices* (KLNRS08 Lemma 4.3): `local_algorithm` asks each
question of a fresh group. *From devices to queries* (Lemmas 4.4 and 4.5): a report w of a user who
is drawn from the distribution Z has probability p(w) = E_z Pr[R(z) = w], which is a statistical
query. Draw w from R(0) instead, and keep it with probability p(w) / (q(w) e^eps), q the law of
R(0): what is kept has law p. A user who was asked before has p(w) = E[r_1] / E[r_2], with r_1 and
r_2 the products of the probabilities of all its reports, with w and without. *From numbers to
yes/no* (Bshouty and Feldman): a number is asked through its binary digits.
"""

from askance_papers.reductions.back import by_adaptive_queries, by_queries, candidates
from askance_papers.reductions.boolean import BooleanOracle, digits_of
from askance_papers.reductions.laws import (
    Law,
    local_law,
    simulated_law,
    simulated_law_in_one_round,
    total_variation,
)
from askance_papers.reductions.local_algorithms import (
    Interactive,
    LocalCall,
    LocalRun,
    NonInteractive,
    run_locally,
)
from askance_papers.reductions.products import Product
from askance_papers.reductions.there import local_algorithm, one_round_algorithm

__all__ = [
    "BooleanOracle",
    "Interactive",
    "Law",
    "LocalCall",
    "LocalRun",
    "NonInteractive",
    "Product",
    "by_adaptive_queries",
    "by_queries",
    "candidates",
    "digits_of",
    "local_algorithm",
    "local_law",
    "one_round_algorithm",
    "run_locally",
    "simulated_law",
    "simulated_law_in_one_round",
    "total_variation",
]
