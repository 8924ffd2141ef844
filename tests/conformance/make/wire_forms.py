"""Messages in forms that Protocol Buffers allow and few writers use, and forms they do not allow.

A device reads them as Protocol Buffers do; canonical bytes and digests of what is read do not
depend on the form, digests of studies and requests do.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.conformance.make.from_vectors import Json, case, schema_hex

# real(age) over the schema of the vectors: kind 2, one FIELD node, low -5, high 120.
KIND, NODE, LOW, HIGH = "0802", "12070802" + "1a03616765", "1809", "20f001"
QUERY = KIND + NODE + LOW + HIGH
K_ARY = "1204" + "0803" + "1001"  # k-ary response of 3 cells, other 1

QUERIES = {
    "as devices see it": QUERY,
    "fields in another order": HIGH + NODE + LOW + KIND,
    "a number twice, the last one counts": "1801" + QUERY,
    "a number in more bytes than it needs": KIND + NODE + "18898000" + HIGH,
    "a tag in more bytes than it needs": KIND + NODE + "980009" + HIGH,
    "an enumeration past 32 bits": "0882808080" + "10" + NODE + LOW + HIGH,
    "an operation past 32 bits": KIND + "120c" + "0882808080" + "10" + "1a03616765" + LOW + HIGH,
    "one constant without packing": "0801" + "1204" + "0801" + "2002" + "2001",
    "one constant packed": "0801" + "1205" + "0801" + "2201" + "02" + "2001",
    "an empty list of arguments": KIND + "12090802" + "1200" + "1a03616765" + LOW + HIGH,
    "another wire type": KIND + NODE + "1a0109" + HIGH,
    "a fixed number": KIND + NODE + "1909" + "00" * 7 + HIGH,
    "field number 0": QUERY + "0001",
    "a group": QUERY + "f33ef43e",
    "an unfinished number": QUERY + "18ff",
    "an unfinished message": QUERY + "1205",
    "a number of eleven bytes": QUERY + "18" + "80" * 10 + "01",
    "a name that is not UTF-8": KIND + "12070802" + "1a0361ff65" + LOW + HIGH,
    "a name that is half a surrogate": KIND + "12070802" + "1a03eda080" + LOW + HIGH,
}
RANDOMIZERS = {
    "a family twice is merged": "1202" + "0803" + "1202" + "1001",
    "the last family counts": "2a02" + "0803" + K_ARY,
    "a family that another one replaced is empty": K_ARY + "2a02" + "0803" + "1202" + "1001",
    "an empty family": "1200",
    "no family": "",
    "an unknown family": "4a00",
    "cells past 32 bits": "1208" + "0883808080" + "10" + "1001",
}
# Version 1 and one field, a bit "b" or a category "c".
BIT_B, C = "10011a050a01621200", "10011a{:02x}0a016322{:02x}"
SCHEMAS = {
    "a name of letters beyond ASCII": "0a05" + "636166c3a9" + BIT_B,
    "a name with a space": "0a03" + "612062" + BIT_B,
    "a name with a line break": "0a03" + "610a62" + BIT_B,
    "a name with an invisible space": "0a05" + "61e2808b62" + BIT_B,
    "a name of a private character": "0a03" + "ee8080" + BIT_B,
    "labels beyond ASCII": "0a0161" + C.format(16, 11) + "0a05" + "6772c3bc6e" + "0a02" + "c3a9",
    "a label that stands for nothing": "0a0161" + C.format(9, 4) + "0a02" + "203f",
    "a label of another kind of space": "0a0161" + C.format(10, 5) + "0a03" + "e28083",
    "a name of a field beyond ASCII": "0a0161" + "10011a060a02c3a91200",
}


def form_cases() -> Iterator[Json]:
    """Yield each form of a query, a schema or a randomizer."""
    for name, data in QUERIES.items():
        yield case("query", f"form: {name}", schema=schema_hex(), bytes=data)
    for name, data in SCHEMAS.items():
        yield case("schema", f"form: {name}", bytes=data)
    for name, data in RANDOMIZERS.items():
        yield case("randomizer", f"form: {name}", bytes=data)
