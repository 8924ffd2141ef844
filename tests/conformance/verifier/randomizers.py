"""Registry of randomizer families, by the names of the wire."""

from __future__ import annotations

from typing import Any

from tests.conformance.verifier.cell_families import Hadamard, Hashing, Kary, Table
from tests.conformance.verifier.families import Family
from tests.conformance.verifier.set_families import SignedSubset, Subset
from tests.conformance.verifier.vector_families import Codebook, Hypercube
from tests.conformance.verifier.wire import Malformed, Message

FAMILIES: dict[str, type[Any]] = {
    "table": Table,
    "k_ary_response": Kary,
    "subset_selection": Subset,
    "linear_hashing": Hashing,
    "hadamard_sign": Hadamard,
    "signed_subset_selection": SignedSubset,
    "hypercube_response": Hypercube,
    "random_codebook": Codebook,
}


def randomizer_of(message: Message | None) -> Family:
    """The randomizer in a decoded message.

    Raises:
        Malformed: no family, or a table with a wrong number of entries.
        InvalidRandomizer: a parameter out of range, or a loss without bound.
    """
    for name, parameters in (message or {}).items():
        if parameters is not None:
            family: Family = FAMILIES[name](parameters)
            return family
    raise Malformed("expected a family")
