"""Queries of complete cases: the value of a record that has all fields, else the public default."""

from __future__ import annotations

import pytest

from askance_aggregator.queries import (
    category,
    encode_columns,
    evaluate_columns,
    evaluate_vectors,
    has_all,
    of_complete,
    predicate,
    real,
    signed,
    vector,
)
from askance_client.errors import InvalidQuery
from askance_client.queries import Bit, Bits, Category, Expression, Integer, Query, Real, Schema

SCHEMA = Schema("s", 1, n=Integer(-3, 9), x=Real(-2, 5), b=Bit(), bits=Bits(3), c=Category("abc"))
FIELDS: dict[str, Expression] = {name: SCHEMA[name] for name in SCHEMA.fields}
FULL = {"n": 4, "x": 1.5, "b": 1, "bits": "101", "c": "b"}
QUERIES: dict[str, Query] = {
    "a number": real(SCHEMA["x"], default=0),
    "a product": real(SCHEMA["x"] * SCHEMA["n"], default=0),
    "a truth": predicate(SCHEMA["b"] & (SCHEMA["c"] == "b")),
    "a category": category(SCHEMA["c"], default=2),
    "a cell": category(SCHEMA["n"] + 3, default=12),
    "a sign": signed(SCHEMA["n"] + 3),
}


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("lacked", [None, *FULL])
def test_a_record_that_lacks_a_field_has_the_default_and_no_other_is_changed(
    name: str, lacked: str | None
) -> None:
    asked = of_complete(QUERIES[name], FIELDS)
    record = {key: None if key == lacked else value for key, value in FULL.items()}
    rows = encode_columns(SCHEMA, {key: [value] for key, value in record.items()})
    full = encode_columns(SCHEMA, {key: [value] for key, value in FULL.items()})
    own = int(evaluate_columns(QUERIES[name], full)[0])
    wanted = own if lacked is None else asked.default
    assert int(evaluate_columns(asked, rows)[0]) == wanted
    fields = {key: value for key, value in record.items() if value is not None}
    assert asked.evaluate(SCHEMA.encode(fields)) == wanted  # on a device
    assert (asked.low, asked.high, asked.default) == (
        QUERIES[name].low,
        QUERIES[name].high,
        QUERIES[name].default,
    )
    assert asked.fields_used == set(FULL)


def test_a_query_that_uses_all_fields_is_asked_as_it_is() -> None:
    query = real(SCHEMA["x"], default=0)
    assert of_complete(query, {"x": SCHEMA["x"]}) is query


@pytest.mark.parametrize("lacked", [None, *FULL])
def test_the_share_of_complete_cases_is_asked_for(lacked: str | None) -> None:
    record = {key: None if key == lacked else value for key, value in FULL.items()}
    rows = encode_columns(SCHEMA, {key: [value] for key, value in record.items()})
    assert int(evaluate_columns(has_all(FIELDS), rows)[0]) == (lacked is None)


def test_what_has_no_complete_cases_is_refused() -> None:
    with pytest.raises(InvalidQuery, match="one field or more"):
        has_all({})


@pytest.mark.parametrize("lacked", [None, *FULL])
def test_every_component_of_a_vector_has_the_default_where_a_field_is_lacked(
    lacked: str | None,
) -> None:
    query = vector([SCHEMA["n"] * 1, SCHEMA["n"] + 1])
    asked = of_complete(query, FIELDS)
    record = {key: None if key == lacked else value for key, value in FULL.items()}
    rows = encode_columns(SCHEMA, {key: [value] for key, value in record.items()})
    full = encode_columns(SCHEMA, {key: [value] for key, value in FULL.items()})
    found = evaluate_vectors(asked, rows).ravel().tolist()
    own = evaluate_vectors(query, full).ravel().tolist()
    assert found == (own if lacked is None else [asked.default] * 2)
    assert asked.fields_used == set(FULL)
