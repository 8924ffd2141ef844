"""Randomizers on the wire: a table of integers, or a family's name and parameters."""

from __future__ import annotations

from askance_client.errors import InvalidParameter, RemoteProtocolError
from askance_client.randomizers import (
    MAX_LEVELS,
    Channel,
    HadamardSign,
    HypercubeResponse,
    KaryResponse,
    LinearHashing,
    RandomCodebook,
    Randomizer,
    SignedSubsetSelection,
    SubsetSelection,
)
from askance_protos.v1 import randomizer_pb2 as pb


def decode_randomizer(message: pb.Randomizer) -> Randomizer:
    """The randomizer in `message`; its privacy loss is computed from it, not read.

    Raises:
      RemoteProtocolError: no family, or a table with a wrong number of entries.
      InvalidParameter: rows that do not sum to 2^64, an infinite loss, a parameter out of range.
    """
    match message.WhichOneof("family"):
        case "table":
            return _decode_table(message.table)
        case "k_ary_response":
            return KaryResponse(message.k_ary_response.cells, message.k_ary_response.other)
        case "subset_selection":
            family = message.subset_selection
            return SubsetSelection(family.cells, family.size, family.threshold)
        case "linear_hashing":
            hashing = message.linear_hashing
            return LinearHashing(hashing.cells, hashing.modulus, hashing.other)
        case "hadamard_sign":
            return HadamardSign(message.hadamard_sign.values, message.hadamard_sign.threshold)
        case "signed_subset_selection":
            signed = message.signed_subset_selection
            return SignedSubsetSelection(signed.values, signed.size, signed.threshold)
        case "hypercube_response":
            cube = message.hypercube_response
            return HypercubeResponse(cube.components, cube.radius, cube.threshold)
        case "random_codebook":
            book = message.random_codebook
            counts = (book.components, book.radius, book.bases, book.near)
            return RandomCodebook(*counts, book.threshold, book.seed_bits)
    raise RemoteProtocolError("randomizer: expected a family, found none")


def _decode_table(table: pb.Table) -> Channel:
    if (
        table.levels > MAX_LEVELS
    ):  # before they are laid out: 2^32 levels of 0 symbols are 0 entries
        raise InvalidParameter(f"a table has 2..{MAX_LEVELS} levels, found {table.levels}")
    if table.levels * table.symbols != len(table.entries):
        raise RemoteProtocolError(
            f"randomizer: expected {table.levels} x {table.symbols} entries,"
            f" found {len(table.entries)}"
        )
    return Channel(
        tuple(
            tuple(table.entries[row * table.symbols : (row + 1) * table.symbols])
            for row in range(table.levels)
        )
    )
