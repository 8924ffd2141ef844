"""Names of columns beside a schema: what finds a field, what is equal, what is left out."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import askance as ask
from askance_aggregator.names import (
    ColumnNames,
    named_schema,
    named_schema_from_toml,
    names_of,
    plain_schema,
    subject_of,
)
from askance_client.queries.schema import UnknownField

PLAIN = ask.Schema("people", 1, Gr__e__cm_=ask.Integer(0, 9), kind=ask.Category(["a", "b"]))
NAMED = named_schema(PLAIN, {"Gr__e__cm_": "Größe (cm)", "kind": "kind"})


def test_a_field_is_found_by_both_names() -> None:
    assert NAMED["Größe (cm)"] is NAMED.Gr__e__cm_
    assert NAMED["kind"] is NAMED.kind
    with pytest.raises(UnknownField, match="has no field 'Größe'"):
        NAMED["Größe"]


def test_it_equals_the_schema_without_them() -> None:
    assert NAMED == PLAIN
    assert PLAIN == NAMED
    assert (hash(NAMED), NAMED.canonical) == (hash(PLAIN), PLAIN.canonical)
    assert plain_schema(NAMED) is PLAIN
    assert names_of(PLAIN, NAMED).renamed == {"Gr__e__cm_": "Größe (cm)"}
    copied = pickle.loads(pickle.dumps(NAMED))
    assert (copied, names_of(copied)) == (NAMED, names_of(NAMED))


@pytest.mark.parametrize(
    "own",
    [
        {"Gr__e__cm_": "kind"},  # another field
        {"Gr__e__cm_": "x y", "kind": "x y"},  # two fields
        {"Gr__e__cm_": "a"},  # a label
        {"Gr__e__cm_": ""},
        {"Gr__e__cm_": "x" * 257},
        {"Gr__e__cm_": "\ud800 cm"},  # no UTF-8
    ],
)
def test_a_name_that_could_be_mistaken_is_left_out(own: dict[str, str]) -> None:
    assert named_schema(PLAIN, own) is PLAIN


def test_a_schema_file_has_them(tmp_path: Path) -> None:
    path = tmp_path / "people.toml"
    fields = '"Größe (cm)" = { type = "integer", low = 0, high = 9 }\nkind = { type = "bit" }\n'
    path.write_text(f"[fields]\n{fields}", encoding="utf-8")
    schema = named_schema_from_toml(path)
    assert list(schema.fields) == ["Gr__e__cm_", "kind"]
    assert names_of(schema).own == {"Gr__e__cm_": "Größe (cm)", "kind": "kind"}


@pytest.mark.parametrize(
    "content",
    [{}, {"fields": "a_b"}, {"fields": ["a_b"], "columns": ["a b"]}, {"columns": {"a_b": "a b"}}],
)
def test_a_result_without_them_or_of_another_form_has_none(content: dict[str, object]) -> None:
    assert ColumnNames.of_result(content) == ColumnNames()


@pytest.mark.parametrize(
    ("fields", "parameters", "subject"),
    [
        (["kind"], {}, "kind"),
        (["kind", "Gr__e__cm_"], {}, "Gr__e__cm_, kind"),  # the schema's order
        (["Gr__e__cm_", "kind"], {"group": "kind"}, "Gr__e__cm_ by kind"),
        (["Gr__e__cm_", "kind"], {"group": "Gr__e__cm_"}, "kind by Gr__e__cm_"),
        (["kind"], {"group": "kind"}, ""),
    ],
)
def test_a_subject_has_the_schemas_order(
    fields: list[str], parameters: dict[str, str], subject: str
) -> None:
    assert subject_of(PLAIN, fields, parameters) == subject
