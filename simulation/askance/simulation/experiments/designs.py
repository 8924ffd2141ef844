"""The randomizers that a study can be given by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from askance.aggregator.planning import Design
from askance.client.errors import InvalidParameter
from askance.client.randomizers import (
    best_for,
    k_ary_response,
    linear_hashing,
    subset_selection,
)

BEST = "best"
DESIGNS: Mapping[str, Design] = MappingProxyType(
    {
        BEST: best_for,
        "k-ary-response": k_ary_response,
        "subset-selection": subset_selection,
        "linear-hashing": linear_hashing,
    }
)
"""By name; "best" is what a study has when nobody says otherwise."""


def design(name: str) -> Design:
    """Return the design of that name.

    Raises:
      InvalidParameter: there is none.
    """
    if name not in DESIGNS:
        raise InvalidParameter(f"randomizer: expected one of {', '.join(DESIGNS)}, found {name!r}")
    return DESIGNS[name]
