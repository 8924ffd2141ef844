"""The randomizers that a study can be given by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from askance_aggregator.families import best_for, k_ary_response, linear_hashing, subset_selection
from askance_aggregator.names import unknown_name
from askance_aggregator.planning import Design

BEST = "best"
DESIGNS: Mapping[str, Design] = MappingProxyType(
    {
        BEST: best_for,
        "k-ary-response": k_ary_response,
        "subset-selection": subset_selection,
        "linear-hashing": linear_hashing,
    }
)
"""Designs by name; "best" is a study's default."""


def design(name: str) -> Design:
    """Return the design of that name."""
    if name not in DESIGNS:
        raise unknown_name("randomizer", name, DESIGNS)
    return DESIGNS[name]
