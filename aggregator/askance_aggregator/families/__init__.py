"""Families of randomizers: tally, estimates, variances and the best randomizer for a budget.

Rules of the package:

- A family holds facts of one randomizer; it reveals nothing of a user and needs no trust. The
  device computes the loss of each randomizer that it is sent (`askance_client.randomizers`).
- Facts are exact: probabilities and estimates are fractions, tallies are integers.
- A new family is one module here, found by itself: a class decorated by `describes`, and a function
  that makes the randomizer for a budget in nano-nats.

Theory of operation: `best_for` chooses a randomizer for a budget, `family_of` gives its facts. An
aggregator drops reports that are not `valid`, calls `tally`, and then `frequencies` (shares of
levels), `signed_values` (a `SignedFamily`), `means` (a `CodebookFamily`), or decodes symbols by
values of its own (`TableFamily`).
Source: KLNRS08 section 4.
"""

import pkgutil
from importlib import import_module

from askance_aggregator.families.channel import TableFamily, randomized_response
from askance_aggregator.families.choice import best_for, shares_for, signed_for
from askance_aggregator.families.family import (
    Family,
    SignedFamily,
    family_of,
    make,
    makers,
    makes,
    registered,
)
from askance_aggregator.families.hadamard_sign import HadamardFamily, hadamard_sign
from askance_aggregator.families.hypercube_response import HypercubeFamily, hypercube_response
from askance_aggregator.families.k_ary import KaryFamily, k_ary_response
from askance_aggregator.families.linear_hashing import HashingFamily, linear_hashing
from askance_aggregator.families.random_codebook import CodebookFamily, random_codebook
from askance_aggregator.families.rates import InclusionRates, SignRates
from askance_aggregator.families.signed_subset_selection import (
    SignedSubsetFamily,
    signed_subset_selection,
)
from askance_aggregator.families.subset_selection import SubsetFamily, subset_selection

for _module in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = [
    "CodebookFamily",
    "Family",
    "HadamardFamily",
    "HashingFamily",
    "HypercubeFamily",
    "InclusionRates",
    "KaryFamily",
    "SignRates",
    "SignedFamily",
    "SignedSubsetFamily",
    "SubsetFamily",
    "TableFamily",
    "best_for",
    "family_of",
    "hadamard_sign",
    "hypercube_response",
    "k_ary_response",
    "linear_hashing",
    "make",
    "makers",
    "makes",
    "random_codebook",
    "randomized_response",
    "registered",
    "shares_for",
    "signed_for",
    "signed_subset_selection",
    "subset_selection",
]
