"""Randomizers on the wire: a table of integers, or a family's name and parameters."""

from __future__ import annotations

from itertools import chain, repeat

from askance_client.errors import RemoteProtocolError
from askance_client.randomizers import (
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
from askance_client.randomizers.channel import check_sides
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
    levels, symbols = table.levels, table.symbols
    check_sides(levels, symbols)  # before they are laid out
    repeats = table.repeats or [1] * len(table.entries)
    if len(repeats) != len(table.entries) or sum(repeats) != levels * symbols:
        raise RemoteProtocolError(
            f"randomizer: expected {levels} x {symbols} entries, found {sum(repeats)}"
        )
    entries = list(chain.from_iterable(map(repeat, table.entries, repeats)))
    if table.repeats:  # column by column
        return Channel(tuple(tuple(entries[x::levels]) for x in range(levels)))
    return Channel(tuple(tuple(entries[x * symbols : (x + 1) * symbols]) for x in range(levels)))
