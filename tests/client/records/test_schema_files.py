"""A schema from TOML: every type, and one clear error with its place for anything else."""

from pathlib import Path

import pytest

from askance_aggregator.queries.tables import table_from_schema
from askance_aggregator.reports.schemas import toml_of
from askance_client.errors import InvalidRecord
from askance_client.queries import Bit, Bits, Category, Integer, Label, Real, Schema
from askance_client.records import schema_from_table, schema_from_toml

WHOLE = """
name = "people"
version = 3
[fields]
age = { type = "integer", low = 17, high = 90 }
education = { type = "category", labels = ["school", "college"] }
height = { type = "real", low = "0.5", high = "2.5", frac_bits = 10 }
smokes = { type = "bit" }
answers = { type = "bits", width = 12 }
town = { type = "text" }
income = { type = "label", labels = ["<=50K", ">50K"] }
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "schema.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_type_can_be_written(tmp_path: Path) -> None:
    schema = schema_from_toml(written(tmp_path, WHOLE))
    expected = Schema(
        "people",
        3,
        age=Integer(17, 90),
        education=Category(("school", "college")),
        height=Real("0.5", "2.5", 10),
        smokes=Bit(),
        answers=Bits(12),
        town=Bits(288),
        income=Label(("<=50K", ">50K")),
    )
    assert schema.digest == expected.digest


def test_a_field_of_every_type_may_be_required(tmp_path: Path) -> None:
    text = WHOLE.replace(" }", ", required = true }").replace(
        'smokes = { type = "bit", required = true }',
        'smokes = { type = "bit", required = false }',
    )
    schema = schema_from_toml(written(tmp_path, text))
    required = {name: field.required for name, field in schema.fields.items()}
    assert required == {name: name != "smokes" for name in schema.fields}
    assert schema_from_table(table_from_schema(schema), "again") == schema
    assert schema_from_toml(written(tmp_path, toml_of(schema, {}))) == schema


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[fields]\nage = { type = 'bit', required = 1 }", "fields.age: expected true or false"),
        ("[fields]\nage = { type = 'bit', require = true }", "fields.age: .* found 'require'"),
        ("x =", "expected TOML"),
        ("colour = 1", "got 'colour'"),
        ("name = 'a'", "table of fields"),
        ("[fields]\nage = 3", "fields.age: expected a type among"),
        ("[fields]\nage = { type = 'number' }", "fields.age: expected a type among"),
        ("[fields]\nage = { type = ['bit'] }", "fields.age: expected a type among"),
        ("[fields]\nage = { type = 'integer', low = 1 }", "fields.age: .* found no 'high'"),
        ("[fields]\nage = { type = 'bit', low = 1 }", "fields.age: .* found 'low'"),
        ("[fields]\nage = { type = 'integer', low = 5, high = 1 }", "fields.age"),
        ("[fields]\nkind = { type = 'category', labels = 3 }", "fields.kind"),
        ("[fields]", "schema"),
        ("version = -1\n[fields]\nb = { type = 'bit' }", "version"),
    ],
)
def test_anything_else_is_one_clear_error(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidRecord, match=message) as caught:
        schema_from_toml(written(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidRecord, match="cannot be read"):
        schema_from_toml(tmp_path / "none.toml")
