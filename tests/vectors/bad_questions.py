"""Schemas, queries and randomizers that must be refused."""

from __future__ import annotations

from typing import Any

from askance_aggregator.encoding import encode_query, encode_randomizer
from askance_aggregator.families import randomized_response
from askance_aggregator.queries import predicate
from askance_client.queries import Op
from askance_protos.v1 import query_pb2, randomizer_pb2, schema_pb2
from tests.vectors.good_cases import ONE, SCHEMA
from tests.vectors.refusals import (
    FUTURE,
    PARAMETER,
    QUERY,
    REMOTE,
    Cases,
    Change,
    case,
    changed,
    everywhere,
    long_case,
    oversize,
)

PREDICATE = query_pb2.QUERY_KIND_PREDICATE


def schemas() -> Cases:
    pb = schema_pb2
    bit = pb.Field(name="y", bit=pb.Bit())

    def made(*fields: pb.Field, name: str = "s", version: int = 1) -> bytes:
        return pb.Schema(name=name, version=version, fields=fields).SerializeToString()

    return [
        *everywhere("Schema"),
        oversize("Schema", 256 * 1024),
        case(
            "a field without a type",
            made(pb.Field(name="y")),
            REMOTE,
            "expected a type for field 'y'",
        ),
        case("two fields of one name", made(bit, bit), REMOTE, "'y' twice"),
        case("no fields", made(), PARAMETER, "expected 1..4096 fields, found 0"),
        case(
            "a field name that is none",
            made(pb.Field(name="1y", bit=pb.Bit())),
            PARAMETER,
            "found '1y'",
        ),
        case(
            "bits of no length",
            made(pb.Field(name="y", bits=pb.Bits())),
            PARAMETER,
            "a width in 1..4096, found 0",
        ),
        case(
            "an integer that is upside down",
            made(pb.Field(name="y", integer=pb.Integer(low=2, high=1))),
            PARAMETER,
            "low < high",
        ),
        case(
            "a grid that is too fine",
            made(pb.Field(name="y", real=pb.Real(low=0, high=1, frac_bits=41))),
            PARAMETER,
            "frac_bits in 0..40, found 41",
        ),
        case(
            "a label twice",
            made(pb.Field(name="y", category=pb.Category(labels=["a", "a"]))),
            PARAMETER,
            "a label twice",
        ),
        case(
            "an unknown field within",
            bytes.fromhex("0a017310011a08" + "0a0179" + "1200" + FUTURE),
            REMOTE,
            "Schema: expected known fields only, found others",
        ),
    ]


node = query_pb2.Node


def query_of(*nodes: query_pb2.Node) -> bytes:
    return query_pb2.Query(kind=PREDICATE, nodes=nodes, high=1).SerializeToString()


def queries() -> Cases:
    return [*everywhere("Query"), *_envelopes(), *_single_nodes(), *_several_nodes()]


def _envelopes() -> Cases:
    good = encode_query(predicate((SCHEMA.age >= 18) & (SCHEMA.colour == "red")))
    data = good.SerializeToString(deterministic=True)

    def altered(change: Change) -> bytes:
        return changed(query_pb2.Query, data, change)

    def swap(message: Any) -> None:
        nodes = list(message.nodes)
        del message.nodes[:]
        message.nodes.extend([nodes[1], nodes[0], *nodes[2:]])
        message.nodes[2].args[:] = [1, 0]

    return [
        case("an unknown kind", altered(lambda m: setattr(m, "kind", 99)), QUERY, "a known kind"),
        case("no kind", altered(lambda m: setattr(m, "kind", 0)), QUERY, "a known kind"),
        case(
            "bounds upside down",
            altered(lambda m: setattr(m, "low", 2)),
            QUERY,
            "a BOOLEAN in 0..1",
        ),
        case(
            "a default out of bounds",
            altered(lambda m: setattr(m, "default", 2)),
            QUERY,
            "its default within its bounds",
        ),
        case("nodes in another order", altered(swap), QUERY, "canonical order, each used and once"),
        case("no nodes", query_of(), QUERY, "1..4096 nodes, found 0"),
        long_case(
            "too many nodes",
            [["0801", 1], ["12050801220100", 4097]],
            QUERY,
            "1..4096 nodes, found 4097",
        ),
    ]


def _single_nodes() -> Cases:
    return [
        case(
            "an unknown operation",
            query_of(node(op=999)),
            QUERY,
            "a known operation at node 0, found number 999",
        ),
        case(
            "the reserved operation",
            query_of(node(op=0)),
            QUERY,
            "a known operation at node 0, found number 0",
        ),
        case(
            "an unknown name",
            query_of(node(op=Op.FIELD, name="income")),
            QUERY,
            "no field 'income'",
        ),
        case(
            "an attribute that its operation has not",
            query_of(node(op=Op.FIELD, name="smoker", frac=3)),
            QUERY,
            "expects no arguments, constants or grid",
        ),
        case(
            "a constant that is too large",
            query_of(node(op=Op.CONSTANT, constants=[1 << 62])),
            QUERY,
            "integer constants below 2^62",
        ),
    ]


def _several_nodes() -> Cases:
    age = node(op=Op.FIELD, name="age")
    constant = node(op=Op.CONSTANT, constants=[18])
    deep = [node(op=Op.FIELD, name="smoker")]
    deep += [node(op=Op.NOT, args=[place]) for place in range(64)]
    huge = [node(op=Op.CONSTANT, constants=[(1 << 62) - 1]), node(op=Op.ADD, args=[0, 0])]
    return [
        case(
            "an argument that comes later",
            query_of(node(op=Op.NOT, args=[0])),
            QUERY,
            "positions of earlier nodes",
        ),
        case(
            "too few arguments",
            query_of(age, node(op=Op.LESS, args=[0])),
            QUERY,
            "expects 2 arguments, found 1",
        ),
        case(
            "a number where a truth value belongs",
            query_of(constant, age, node(op=Op.AND, args=[0, 1])),
            QUERY,
            "expects BOOLEAN as argument 1, found NUMBER",
        ),
        case(
            "one node twice",
            query_of(age, age, node(op=Op.LESS, args=[0, 1])),
            QUERY,
            "canonical order, each used and once",
        ),
        case(
            "a node that is not used",
            query_of(constant, node(op=Op.FIELD, name="smoker")),
            QUERY,
            "canonical order, each used and once",
        ),
        case(
            "a mask of another length",
            query_of(
                node(op=Op.FIELD, name="answers"),
                node(op=Op.PARITY, args=[0], constants=[1] * 39),
            ),
            QUERY,
            "found 39",
        ),
        case(
            "a vector that is computed with",
            query_of(
                node(op=Op.FIELD, name="age"),
                node(op=Op.VECTOR, args=[0]),
                node(op=Op.NEGATE, args=[1]),
            ),
            QUERY,
            "found VECTOR",
        ),
        case(
            "a vector on a grid coarser than its components'",
            query_of(node(op=Op.FIELD, name="height"), node(op=Op.VECTOR, args=[0])),
            QUERY,
            "at least its components' 16 bits, found 0",
        ),
        case(
            "an operation that there is no more",
            query_of(node(op=Op.FIELD, name="age"), node(op=27, args=[0], constants=[0, 0])),
            QUERY,
            "expected a known operation at node 1, found number 27",
        ),
        case("a sum that could overflow", query_of(*huge), QUERY, "could reach 2^62"),
        case("too deep an expression", query_of(*deep), QUERY, "a depth of at most 64, found 65"),
    ]


def randomizers() -> Cases:
    pb = randomizer_pb2
    half = 1 << 63

    def table(levels: int, symbols: int, *entries: int) -> bytes:
        made = pb.Table(levels=levels, symbols=symbols, entries=entries)
        return pb.Randomizer(table=made).SerializeToString()

    def runs(
        levels: int, symbols: int, entries: tuple[int, ...], repeats: tuple[int, ...]
    ) -> bytes:
        made = pb.Table(levels=levels, symbols=symbols, entries=entries, repeats=repeats)
        return pb.Randomizer(table=made).SerializeToString()

    last = (1 << 64) - 1
    certain = encode_randomizer(randomized_response(ONE)).SerializeToString() + bytes.fromhex(
        FUTURE
    )
    return [
        *everywhere("Randomizer"),
        case(
            "an unknown field beside a family",
            certain,
            REMOTE,
            "known fields only, found others",
        ),
        case("no family", b"", REMOTE, "randomizer: expected a family, found none"),
        case(
            "an entry is missing",
            table(2, 2, half, half, half),
            REMOTE,
            "randomizer: expected 2 x 2 entries, found 3",
        ),
        case(
            "a row that sums to one less",
            table(2, 2, half, half, half, half - 1),
            PARAMETER,
            "row 1 must sum to 2^64, it is off by -1",
        ),
        case(
            "a row that sums to one more",
            table(2, 2, half, half, half, half + 1),
            PARAMETER,
            "row 1 must sum to 2^64, it is off by 1",
        ),
        case(
            "a zero beside a non-zero",
            table(2, 3, half, half, 0, half, half - 1, 1),
            PARAMETER,
            "privacy loss is infinite",
        ),
        case(
            "a symbol that never comes",
            table(2, 3, half, half, 0, half, half, 0),
            PARAMETER,
            "an unused symbol",
        ),
        case(
            "one level",
            table(1, 2, half, half),
            PARAMETER,
            "levels of a table: expected 2..720, got 1",
        ),
        case(
            "one symbol",
            table(2, 1, last, last),
            PARAMETER,
            "symbols of a table: expected 2..720, got 1",
        ),
        case("no levels", table(0, 0), PARAMETER, "levels of a table: expected 2..720, got 0"),
        case("721 levels", table(721, 0), PARAMETER, "levels of a table: expected 2..720, got 721"),
        case(
            "721 symbols", table(2, 721), PARAMETER, "symbols of a table: expected 2..720, got 721"
        ),
        case("fewer repeats than entries", runs(2, 2, (half,) * 2, (4,)), REMOTE, "2 x 2 entries"),
        case("repeats of too much", runs(2, 2, (half,), (5,)), REMOTE, "2 x 2 entries, found 5"),
        *_families(),
    ]


def _families() -> Cases:
    pb = randomizer_pb2
    half = 1 << 63

    def k_ary(cells: int, other: int) -> bytes:
        family = pb.KaryResponse(cells=cells, other=other)
        return pb.Randomizer(k_ary_response=family).SerializeToString()

    def subset(cells: int, size: int, threshold: int) -> bytes:
        family = pb.SubsetSelection(cells=cells, size=size, threshold=threshold)
        return pb.Randomizer(subset_selection=family).SerializeToString()

    return [
        case(
            "k-ary: the others never",
            k_ary(3, 0),
            PARAMETER,
            "other: expected 1..9223372036854775807, got 0",
        ),
        case(
            "k-ary: oneself never",
            k_ary(3, half),
            PARAMETER,
            "other: expected 1..9223372036854775807, got 9223372036854775808",
        ),
        case("k-ary: one cell", k_ary(1, 1), PARAMETER, "cells: expected 2..1048576, got 1"),
        case("k-ary: too many cells", k_ary(1048577, 1), PARAMETER, "2..1048576, got 1048577"),
        case("subset: all cells", subset(4, 4, half), PARAMETER, "size: expected 1..3, got 4"),
        case("subset: no cell", subset(4, 0, half), PARAMETER, "size: expected 1..3, got 0"),
        case(
            "subset: a long report",
            subset(65537, 2731, half),
            PARAMETER,
            "bytes of a report: expected 1..8192, got 8193",
        ),
        case(
            "subset: oneself never",
            subset(4, 2, 0),
            PARAMETER,
            "threshold: expected 1..18446744073709551615, got 0",
        ),
        *_later_families(),
    ]


def _later_families() -> Cases:
    pb = randomizer_pb2
    half, most = 1 << 63, (1 << 32) - 1

    def hashing(cells: int, modulus: int, other: int) -> bytes:
        family = pb.LinearHashing(cells=cells, modulus=modulus, other=other)
        return pb.Randomizer(linear_hashing=family).SerializeToString()

    def sign(values: int, threshold: int) -> bytes:
        family = pb.HadamardSign(values=values, threshold=threshold)
        return pb.Randomizer(hadamard_sign=family).SerializeToString()

    def signed(values: int, size: int, threshold: int) -> bytes:
        family = pb.SignedSubsetSelection(values=values, size=size, threshold=threshold)
        return pb.Randomizer(signed_subset_selection=family).SerializeToString()

    def cube(components: int, radius: int, threshold: int) -> bytes:
        family = pb.HypercubeResponse(components=components, radius=radius, threshold=threshold)
        return pb.Randomizer(hypercube_response=family).SerializeToString()

    def book(*counts: int, threshold: int = 1, seed_bits: int = 40) -> bytes:
        components, radius, bases, near = counts
        family = pb.RandomCodebook(
            components=components,
            radius=radius,
            bases=bases,
            near=near,
            threshold=threshold,
            seed_bits=seed_bits,
        )
        return pb.Randomizer(random_codebook=family).SerializeToString()

    return [
        case(
            "codebook: no component",
            book(0, 1, 1, 1),
            PARAMETER,
            "components: expected 1..1024, got 0",
        ),
        case("codebook: no radius", book(2, 0, 1, 1), PARAMETER, "radius: expected 1.."),
        case("codebook: a great radius", book(2, 1 << 41, 1, 1), PARAMETER, "radius: expected 1.."),
        case("codebook: no basis", book(2, 1, 0, 1), PARAMETER, "bases: expected 1.."),
        case("codebook: too many bases", book(1000, 1, 33, 1), PARAMETER, "bases: expected 1..32"),
        case("codebook: no code is near", book(2, 1, 1, 0), PARAMETER, "near: expected 1.."),
        case("codebook: all are near", book(20, 1, 1, 44), PARAMETER, "near: expected 1..43"),
        case(
            "codebook: never near",
            book(2, 1, 1, 1, threshold=0),
            PARAMETER,
            "threshold: expected 1",
        ),
        case("codebook: a long seed", book(2, 1, 1, 1, seed_bits=41), PARAMETER, "seed_bits: exp"),
        case(
            "hypercube: no component",
            cube(0, 0, 1),
            PARAMETER,
            "components: expected 1..1024, got 0",
        ),
        case(
            "hypercube: too many",
            cube(1025, 0, 1),
            PARAMETER,
            "components: expected 1..1024, got 1025",
        ),
        case("hypercube: all are near", cube(3, 3, 1), PARAMETER, "radius: expected 0..2, got 3"),
        case(
            "hypercube: never near",
            cube(3, 1, 0),
            PARAMETER,
            "threshold: expected 1..18446744073709551615, got 0",
        ),
        case("hashing: no cell", hashing(0, 3, 1), PARAMETER, "cells: expected 3..1048576, got 0"),
        case(
            "hashing: too many cells", hashing(1048577, 3, 1), PARAMETER, "3..1048576, got 1048577"
        ),
        case(
            "hashing: no prime", hashing(100, 9, 1), PARAMETER, "modulus: expected a prime, got 9"
        ),
        case("hashing: modulus 0", hashing(100, 0, 1), PARAMETER, "modulus: expected 2..99, got 0"),
        case("hashing: modulus 1", hashing(100, 1, 1), PARAMETER, "modulus: expected 2..99, got 1"),
        case(
            "hashing: a great modulus", hashing(100, most, 1), PARAMETER, "modulus: expected 2..99"
        ),
        case(
            "hashing: as many values as cells",
            hashing(7, 7, 1),
            PARAMETER,
            "modulus: expected 2..6, got 7",
        ),
        case("hashing: the others never", hashing(100, 3, 0), PARAMETER, "other: expected 1.."),
        case("hashing: oneself never", hashing(100, 3, half), PARAMETER, "other: expected 1.."),
        case("sign: no value", sign(0, half), PARAMETER, "values: expected 1..32767, got 0"),
        case("sign: too many values", sign(32768, half), PARAMETER, "1..32767, got 32768"),
        case(
            "sign: a lie always",
            sign(5, 0),
            PARAMETER,
            "threshold: expected 1..18446744073709551615, got 0",
        ),
        case("signed: no value", signed(0, 0, half), PARAMETER, "1..32767, got 0"),
        case("signed: too many values", signed(most, 1, half), PARAMETER, f"got {most}"),
        case("signed: an empty set", signed(5, 0, half), PARAMETER, "size: expected 1..5, got 0"),
        case(
            "signed: a set too large", signed(5, 6, half), PARAMETER, "size: expected 1..5, got 6"
        ),
        case("signed: oneself never", signed(5, 2, 0), PARAMETER, "threshold: expected 1.."),
        case("signed: the others never", signed(5, 2, 2 * half - 1), PARAMETER, "is infinite"),
    ]
