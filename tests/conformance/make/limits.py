"""Cases on both sides of each limit, and forms of messages that a lenient reader accepts.

The outcome of each case is stated with it: `accepted` or `refused` is written by hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from askance_client.queries import Op
from askance_protos.v1 import (
    exchange_pb2,
    query_pb2,
    randomizer_pb2,
    schema_pb2,
    study_pb2,
)
from tests.conformance.make.from_vectors import Json, case

MESSAGE, REPORT, RESPONSE = 256 * 1024, 16 * 1024, 1024 * 1024
SCHEMA = schema_pb2.Schema(
    name="limits",
    version=1,
    fields=[
        schema_pb2.Field(name="a", bit=schema_pb2.Bit()),
        schema_pb2.Field(name="b", bit=schema_pb2.Bit()),
        schema_pb2.Field(name="c", category=schema_pb2.Category(labels=["x", "y"])),
        schema_pb2.Field(name="d", category=schema_pb2.Category(labels=["x", "z"])),
        schema_pb2.Field(name="e", category=schema_pb2.Category(labels=["x", "y"])),
        schema_pb2.Field(name="k", integer=schema_pb2.Integer(low=-3, high=4)),
        schema_pb2.Field(name="m", integer=schema_pb2.Integer(low=0, high=(1 << 20) - 1)),
        schema_pb2.Field(name="p", integer=schema_pb2.Integer(low=0, high=1 << 20)),
        schema_pb2.Field(name="r", real=schema_pb2.Real(low=0, high=9, frac_bits=20)),
        schema_pb2.Field(name="s", real=schema_pb2.Real(low=0, high=9, frac_bits=21)),
        schema_pb2.Field(name="v", bits=schema_pb2.Bits(length=2)),
        schema_pb2.Field(name="w", bits=schema_pb2.Bits(length=4096)),
    ],
)
SCHEMA_HEX = SCHEMA.SerializeToString().hex()
PREDICATE, REAL, CATEGORY, VECTOR = 1, 2, 3, 5
HALF = 1 << 63
Node = query_pb2.Node


def field(name: str) -> Node:
    """Make a field's node."""
    return Node(op=Op.FIELD, name=name)


def node(op: Op, *args: int, constants: Iterable[int] = (), frac: int = 0) -> Node:
    """Make a node."""
    return Node(op=op, args=args, constants=constants, frac=frac)


def query(kind: int, nodes: Iterable[Node], high: int = 1) -> str:
    """Write a query with values from 0 on."""
    known = query_pb2.QueryKind.ValueType(kind)
    message = query_pb2.Query(kind=known, nodes=nodes, low=0, high=high, default=0)
    return message.SerializeToString().hex()


def depth(levels: int) -> str:
    """Negate a bit until the tree has so many levels."""
    return query(PREDICATE, [field("a"), *(node(Op.NOT, i) for i in range(levels - 1))])


def nodes(count: int) -> str:
    """Ask for the first of many comparisons, with so many nodes in all."""
    pairs, odd = divmod(count - 2, 2)
    found = [node(Op.CONSTANT, constants=[0]), field("m"), node(Op.LESS, 0, 1)]
    for i in range(1, pairs):
        found.append(node(Op.CONSTANT, constants=[i]))
        found.append(node(Op.LESS, len(found) - 1, 1))
    compared = [2, *range(4, len(found), 2)]
    if odd:
        found.append(node(Op.NOT, 2))
        compared.append(len(found) - 1)
    return query(CATEGORY, [*found, node(Op.FIRST, *compared)], len(compared))


def weight(total: int) -> str:
    """Ask for a vector of sums and buckets, with so many nodes, arguments and constants in all."""
    found, components, spent = [field("w")], [], 2  # the field and the vector
    for first in range(15):
        found.append(node(Op.DOT, 0, constants=[first, *[1] * 4095]))
        components.append(len(found) - 1)
        spent += 4099  # the vector's argument is one of them
    edges = total - spent - 6
    found.append(field("m"))
    found.append(node(Op.BUCKETIZE, len(found) - 1, constants=range(edges)))
    found.append(node(Op.INDEX, len(found) - 1))
    return query(VECTOR, [*found, node(Op.VECTOR, *components, len(found) - 1)], 4096)


def two(op: Op, left: str, right: str, kind: int = PREDICATE, high: int = 1) -> str:
    """Write an operation on two fields, or on one field twice."""
    if left == right:
        return query(kind, [field(left), node(op, 0, 0)], high)
    return query(kind, [field(left), field(right), node(op, 0, 1)], high)


def dot(*coefficients: int) -> str:
    """Multiply two bits by numbers."""
    return query(REAL, [field("v"), node(Op.DOT, 0, constants=coefficients)])


def ask(name: str, kind: int, high: int) -> str:
    """Ask for a field."""
    return query(kind, [field(name)], high)


QUERIES: dict[str, tuple[bool, str]] = {
    "64 levels": (True, depth(64)),
    "65 levels": (False, depth(65)),
    "4,096 nodes": (True, nodes(4096)),
    "4,097 nodes": (False, nodes(4097)),
    "65,536 nodes, arguments and constants": (True, weight(65_536)),
    "65,537 nodes, arguments and constants": (False, weight(65_537)),
    "1,024 components": (True, query(VECTOR, [field("a"), node(Op.VECTOR, *[0] * 1024)])),
    "1,025 components": (False, query(VECTOR, [field("a"), node(Op.VECTOR, *[0] * 1025)])),
    "2^20 cells": (True, ask("m", CATEGORY, (1 << 20) - 1)),
    "2^20 + 1 cells": (False, ask("p", CATEGORY, 1 << 20)),
    "a range of 2^31 - 1 units": (True, ask("p", REAL, (1 << 31) - 1)),
    "a range of 2^31 units": (False, ask("p", REAL, 1 << 31)),
    "a product on a grid of 40 bits": (True, two(Op.MULTIPLY, "r", "r", REAL)),
    "a product on a grid of 41 bits": (False, two(Op.MULTIPLY, "r", "s", REAL)),
    "a square has cells from 0 on": (True, two(Op.MULTIPLY, "k", "k", CATEGORY, 16)),
    "terms below 2^62 together": (True, dot(1 << 61, 1 - (1 << 61))),
    "terms of 2^62 together": (False, dot(1 << 61, -(1 << 61))),
    "categories of equal labels": (True, two(Op.EQUAL, "c", "e")),
    "categories of other labels": (False, two(Op.EQUAL, "c", "d")),
    "one of two booleans is one": (
        True,
        query(PREDICATE, [field("a"), field("b"), node(Op.WHERE, 0, 1, 0)]),
    ),
    # The name would have the two bytes that are the query's greatest value.
    "an inner text beyond its message": (False, "0801" + "1202" + "1a02" + "2002"),
    "a packed number beyond its end": (False, "0801" + "12050802" + "120180" + "2002"),
    "a node of another wire type": (False, "0801" + "1002" + "2002"),
}


def labelled(label: str) -> str:
    """Write a schema whose category has a label."""
    labels = schema_pb2.Category(labels=[label, "other"])
    fields = [schema_pb2.Field(name="c", category=labels)]
    return schema_pb2.Schema(name="s", version=1, fields=fields).SerializeToString().hex()


def schema(name: str = "s", count: int = 1, bits: int = 1) -> str:
    """Write a schema of bits."""
    kind = schema_pb2.Bits(length=bits)
    fields = [schema_pb2.Field(name=f"f{i}", bits=kind) for i in range(count)]
    return schema_pb2.Schema(name=name, version=1, fields=fields).SerializeToString().hex()


SCHEMAS: dict[str, tuple[bool, str]] = {
    "a name of 128 characters": (True, schema("a" * 128)),
    "a name of 129 characters": (False, schema("a" * 129)),
    "a name of 128 characters beyond the first plane": (True, schema("\U0001d44e" * 128)),
    "4,096 fields": (True, schema(count=4096)),
    "4,097 fields": (False, schema(count=4097)),
    "4,096 bits": (True, schema(bits=4096)),
    "4,097 bits": (False, schema(bits=4097)),
    "a label of 1,024 bytes": (True, labelled("é" * 512)),
    "a label of 1,025 bytes": (False, labelled("é" * 512 + "e")),
    "a label of nothing after a separator of ASCII": (False, labelled("\x1c?\x85")),
    "a label after a mark of byte order": (True, labelled("\ufeff?")),
}
STUDY = study_pb2.Study(nonce=bytes(16), schema=SCHEMA, budget_nano_nats=1, expires_unix_s=1)


def study(*parameters: str, **conduct: Any) -> str:
    """Write a study with parameters of these names."""
    message = study_pb2.Study()
    message.CopyFrom(STUDY)
    message.parameters.extend(study_pb2.Parameter(name=name) for name in parameters)
    if conduct:
        message.conduct.CopyFrom(study_pb2.Conduct(**{"confidence": "19/20", **conduct}))
    return message.SerializeToString().hex()


def padded(message: str, number: str, size: int) -> list[list[Any]]:
    """Repeat a number's field of three bytes before a message, which comes to so many bytes.

    The first number takes up to two bytes more than it needs.
    """
    times, more = divmod(size - len(message) // 2, 3)
    long = number[:-2] + f"{int(number[-2:], 16) | 0x80:02x}" + ["00", "8000"][more - 1]
    return (
        [[long, 1], [number, times - 1], [message, 1]] if more else [[number, times], [message, 1]]
    )


MOST_ANSWERS = "688101"  # 129
STUDIES: dict[str, tuple[bool, Any]] = {
    "names by code points beyond the first plane": (True, study("\uffee", "\U00010000")),
    "names by units of UTF-16": (False, study("\U00010000", "\uffee")),
    "a fraction in lowest terms": (True, study(beta="1/3")),
    "a fraction in other terms": (False, study(beta="2/6")),
    "a fraction of 0": (False, study(beta="0/1")),
    "a fraction of 1": (False, study(beta="1/1")),
    "as many bytes as it may have": (True, padded(study(), MOST_ANSWERS, MESSAGE)),
    "a byte more than it may have": (False, padded(study(), MOST_ANSWERS, MESSAGE + 1)),
}
REQUEST = exchange_pb2.Request(
    study_digest=bytes(32),
    query=query_pb2.Query.FromString(bytes.fromhex(two(Op.EQUAL, "a", "b"))),
    randomizer=randomizer_pb2.Randomizer(
        k_ary_response=randomizer_pb2.KaryResponse(cells=2, other=HALF // 2)
    ),
)
REQUEST_HEX = REQUEST.SerializeToString().hex()
ROUND = "108101"  # 129
REQUESTS: dict[str, tuple[bool, Any]] = {
    "as many bytes as it may have": (True, padded(REQUEST_HEX, ROUND, MESSAGE)),
    "a byte more than it may have": (False, padded(REQUEST_HEX, ROUND, MESSAGE + 1)),
    "a number of another wire type": (False, REQUEST_HEX + "120107"),
    # The node would have the two bytes that are the request's round.
    "an inner message beyond its message": (False, REQUEST_HEX + "2202" + "1202" + "1001"),
}
REPORT_HEX = exchange_pb2.Report(request_digest=bytes(32), symbol=b"a").SerializeToString().hex()
CHARGED = "208101"
REPORTS: dict[str, tuple[bool, Any]] = {
    "as many bytes as it may have": (True, padded(REPORT_HEX, CHARGED, REPORT)),
    "a byte more than it may have": (False, padded(REPORT_HEX, CHARGED, REPORT + 1)),
}
LONG = "0afdff3f"  # a report of 2^20 - 3 bytes, after four of tag and length
CHECK_INS: dict[str, tuple[bool, Any]] = {
    "a byte more than it may have": (False, [[LONG, 1], ["00", RESPONSE - 3]]),
    "64 reports": (True, [["0a0178", 64]]),
    "256 studies": (True, [["1220" + "07" * 32, 256]]),
}


def tables(count: int) -> list[list[Any]]:
    """Write a response with requests of tables that have 518,400 entries each, none laid out."""
    table = randomizer_pb2.Randomizer(table=randomizer_pb2.Table(levels=720, symbols=720))
    asked = exchange_pb2.Request(randomizer=table).SerializeToString()
    return [[exchange_pb2.CheckInResponse(requests=[asked]).SerializeToString().hex(), count]]


RESPONSES: dict[str, tuple[bool, Any]] = {
    "as many bytes as it may have": (True, padded("", "208101", RESPONSE)),
    "a byte more than it may have": (False, padded("", "208101", RESPONSE + 1)),
    "64 requests": (True, [["1a0178", 64]]),
    "64 studies": (True, [["1200", 64]]),
    "tables of 1,036,800 entries": (True, tables(2)),
    "tables of 1,555,200 entries": (False, tables(3)),
}


def randomizer(**family: Any) -> str:
    """Write a randomizer."""
    return randomizer_pb2.Randomizer(**family).SerializeToString().hex()


def subset(size: int) -> str:
    """Write a selection of so many out of 65,536 cells."""
    family = randomizer_pb2.SubsetSelection(cells=1 << 16, size=size, threshold=HALF)
    return randomizer(subset_selection=family)


def codebook(bases: int) -> str:
    """Write a codebook of 508 codes per basis."""
    family = randomizer_pb2.RandomCodebook(
        components=252, radius=9, bases=bases, near=9, threshold=HALF, seed_bits=40
    )
    return randomizer(random_codebook=family)


def hypercube(components: int, radius: int) -> str:
    """Write a hypercube response."""
    family = randomizer_pb2.HypercubeResponse(
        components=components, radius=radius, threshold=HALF + HALF // 3
    )
    return randomizer(hypercube_response=family)


RANDOMIZERS: dict[str, tuple[bool, str]] = {
    "a subset of 8,192": (True, subset(8192)),
    "a subset of 8,193": (False, subset(8193)),
    "65,024 codes": (True, codebook(128)),
    "65,532 codes": (False, codebook(129)),
    "1,024 components, a ratio that is cut": (True, hypercube(1024, 500)),
    "301 components, a ratio that is cut": (True, hypercube(301, 140)),
    "1,025 components": (False, hypercube(1025, 500)),
}
NUMBERS = {
    "white space of Unicode": "\u3000\x85 41\u2028",
    "separators of ASCII": "\x1c\x1d\x1e\x1f41\x1c",
    "a mark of byte order": "\ufeff41",
    "a space of no width": "\u200b41",
}


def limit_cases() -> Iterator[tuple[bool, Json]]:
    """Yield cases, each with whether it is accepted."""
    about: dict[str, tuple[dict[str, tuple[bool, Any]], dict[str, str]]] = {
        "query": (QUERIES, {"schema": SCHEMA_HEX}),
        "schema": (SCHEMAS, {}),
        "study": (STUDIES, {}),
        "request": (REQUESTS, {"schema": SCHEMA_HEX}),
        "report": (REPORTS, {}),
        "check_in": (CHECK_INS, {}),
        "response": (RESPONSES, {}),
        "randomizer": (RANDOMIZERS, {}),
    }
    for kind, (table, given) in about.items():
        for name, (accepted, data) in table.items():
            yield accepted, case(kind, f"limit: {name}", bytes=data, **given)
    for name, text in NUMBERS.items():
        yield True, case("record", f"limit: {name}", schema=SCHEMA_HEX, record={"p": text})
