"""Exact draws from passed-in randomness.

Theory of operation: a probability p is a real number that can be bounded to any precision. To
decide "is a uniform number below p?" 64 of its bits are drawn and compared with a float near p.
Where the float's error could matter (once in 2^35 draws) integers decide, and where 64 bits do not
suffice more are drawn. So the decision is exact, and nearly always as fast as a comparison of
columns. Everything else (geometric digits, discrete Laplace and Gaussian, the exponential
mechanism's coins) is made of such decisions.

The one exception is `FloatDraws`, for mechanisms that are continuous by nature; their caller states
what is not float-safe.
"""

from askance_aggregator.sampling.comparison import Bounds, happens, happens_each
from askance_aggregator.sampling.discrete_gaussian import discrete_gaussian
from askance_aggregator.sampling.discrete_laplace import discrete_laplace
from askance_aggregator.sampling.exponentials import exp_minus, happens_exp_minus, logistic
from askance_aggregator.sampling.floating import FloatDraws
from askance_aggregator.sampling.integers import integers_below, permutation
from askance_aggregator.sampling.words import SystemWords, Words

__all__ = [
    "Bounds",
    "FloatDraws",
    "SystemWords",
    "Words",
    "discrete_gaussian",
    "discrete_laplace",
    "exp_minus",
    "happens",
    "happens_each",
    "happens_exp_minus",
    "integers_below",
    "logistic",
    "permutation",
]
