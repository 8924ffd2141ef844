"""Names of columns as a file has them and as fields have them, and errors for unknown names.

A field's name is an identifier, on the wire and in a signed schema; a column may be called
"sepal length (cm)". Names are translated where data and settings come in (`field_called`) and where
texts and JSON go out (`ColumnNames`); everything between has fields' names. A schema has the names
of its columns beside it (`named_schema`), outside its digest.
"""

from __future__ import annotations

import csv
import io
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from askance_client.errors import InvalidParameter
from askance_client.printable import nearest_text, unknown_text, value_text
from askance_client.queries import Bit, Bits, Category, Expression, Integer, Label, Real, Schema
from askance_client.queries.exact import exact_ratio
from askance_client.records import field_name, field_names, schema_from_table, schema_from_toml
from askance_client.records.tables import is_utf_8

MAX_NAMED = 3  # columns that a title names; of more it has the number
_COLUMNS_SHOWN = 20  # of a wide table; the nearest name is sought among all
_MOST_LETTERS = 256  # of a column's name that is shown in place of its field's
_SHOWN = ("hypothesis", "message", "subject")  # parts of a study's result that name fields
_WORD = re.compile(r"\w+", re.ASCII)
_TYPES: dict[type, str] = {
    Bit: "a bit",
    Bits: "bits",
    Category: "a category",
    Integer: "a whole number",
    Label: "a label",
    Real: "a number",
}


class NoSuitableColumn(InvalidParameter):
    """A schema has no field of a type that a learner can ask about."""


def unknown_name(field: str, name: object, known: Iterable[str]) -> InvalidParameter:
    """Return the error for a name that is not among the known ones, with the nearest of them."""
    return InvalidParameter(f"{field}: {unknown_text(name, known)}")


def unknown_column(column: object, known: Iterable[str]) -> str:
    """Format the error for a column that is not among the known ones, with the nearest of them."""
    names = list(known)
    if not names:
        return (
            f"expected a field of a fitting type, of which there is none, got {value_text(column)}"
        )
    nearest = nearest_text(column, names)
    if isinstance(column, str) and "," in column and set(column.split(",")) <= set(names):
        nearest = ": this learner takes one"
    return f"expected one of the fields {_listed(names)}, got {value_text(column)}{nearest}"


def unfit_column(column: str, schema: Schema, types: Sequence[type]) -> str:
    """Format the error for a column that a schema does not have, or has of none of these types."""
    fits = [name for name, kind in schema.fields.items() if isinstance(kind, tuple(types))]
    if column not in schema.fields:
        return unknown_column(column, fits)
    *some, last = (_TYPES[one] for one in types if one is not Integer or Real not in types)
    expected = f"{', '.join(some)} or {last}" if some else last
    such = f" (try {_listed(fits)})" if fits else ", and no field is one"
    return f"expected {expected}, got {column!r}, {_TYPES[type(schema.fields[column])]}{such}"


def _listed(names: Sequence[str]) -> str:
    more = ", ..." if len(names) > _COLUMNS_SHOWN else ""
    return ", ".join(names[:_COLUMNS_SHOWN]) + more


def field_called(column: str, fields: Container[str]) -> str:
    """Return the field of a column by either name; the name as it is where there is none."""
    plain = field_name(column)
    marked = field_names("", [*dict.fromkeys((plain, column))])[-1]
    return next((name for name in (column, marked, plain) if name in fields), column)


def names_in(text: str) -> tuple[str, ...]:
    """Return the names in a list with commas; a name with a comma stands in quotes."""
    try:
        return tuple(name.strip() for name in next(csv.reader([text], skipinitialspace=True), ()))
    except csv.Error as error:
        raise InvalidParameter(
            f"expected names with commas between them, got {value_text(text)}: {error}"
        ) from None


def names_text(names: Iterable[str]) -> str:
    """Return names as the list with commas that `names_in` reads."""
    text, end = io.StringIO(), "\r\n"  # both are then quoted
    row = [*names]
    for name in row:
        if name != name.strip():
            raise InvalidParameter(f"expected no space at its ends, got {value_text(name)}")
    csv.writer(text, lineterminator=end).writerow(row)
    return text.getvalue().removesuffix(end)


def fields_called(text: str, fields: Container[str]) -> str:
    """Return a list of columns (see `names_in`) as a list of fields."""
    return ",".join(field_called(name, fields) for name in names_in(text))


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """Names of columns in what is shown, in place of their fields' names.

    A column is renamed only if no text of the data can be mistaken for its name.
    """

    own: Mapping[str, str] = field(default_factory=dict)  # by field, of all fields of a schema
    renamed: Mapping[str, str] = field(default_factory=dict)  # those that differ

    @classmethod
    def of(cls, schema: Schema, own: Mapping[str, str]) -> ColumnNames:
        """Return the names of a schema's fields; a field without a name of its own keeps its name.

        A label that has a field's or a column's name in it leaves that field its name: in a result
        it could not be told from it. So does a name of two columns, of another field, or of more
        than 256 characters.
        """
        named = {name: own.get(name, name) for name in schema.fields}
        times = Counter(named.values())
        differ = {
            name: column
            for name, column in named.items()
            if column != name
            and times[column] == 1
            and column not in schema.fields
            and 1 <= len(column) <= _MOST_LETTERS
            and is_utf_8(column)
        }
        if differ:
            kinds = (kind for kind in schema.fields.values() if isinstance(kind, Category))
            labels = {label for kind in kinds for label in kind.labels}
            words = {word for label in labels for word in _WORD.findall(label)}
            differ = {
                name: column
                for name, column in differ.items()
                if name not in words and column not in labels
            }
        return cls({name: differ.get(name, name) for name in named}, differ)

    @classmethod
    def of_result(cls, content: Mapping[str, Any]) -> ColumnNames:
        """Return the names in the JSON of a study's result (see `result_names`)."""
        fields, columns = content.get("fields"), content.get("columns")
        if not isinstance(columns, Mapping) or not isinstance(fields, list):
            return cls()
        shown = {name: str(columns[name]) for name in fields if name in columns}
        return cls({name: str(shown.get(name, name)) for name in fields}, shown)

    @classmethod
    def together(cls, schemas: Iterable[Schema]) -> ColumnNames:
        """Return the names of several schemas."""
        own: dict[str, str] = {}
        renamed: dict[str, str] = {}
        for names in map(names_of, schemas):
            own |= names.own
            renamed |= names.renamed
        return cls(own, renamed)

    def in_text(self, text: str) -> str:
        """Return a text with columns' names; one that reads like a number stands in quotes."""
        if not self.renamed:
            return text
        return _WORD.sub(lambda word: self._shown(word[0]), text)

    def in_json(self, data: Any) -> Any:
        """Return JSON with columns' names as keys and texts.

        A field of a schema keeps its name and has that of the column besides, under "column", by
        which `fields_in_json` finds the fields again.
        """
        if not self.renamed:
            return data
        if isinstance(data, Mapping):
            if "field" in data and "type" in data:
                column = self.renamed.get(data["field"])
                return {**data} if column is None else {**data, "column": column}
            by_field = data.keys() <= self.own.keys()
            return {
                self.own[key] if by_field else key: self.in_json(part) for key, part in data.items()
            }
        if isinstance(data, list | tuple):
            return [self.in_json(part) for part in data]
        if not isinstance(data, str):
            return data
        column = self.renamed.get(data)
        if column is None:
            return self.in_text(data)
        return data if _reads_as_number(column) else column

    def _shown(self, word: str) -> str:
        column = self.renamed.get(word, word)
        return repr(column) if _reads_as_number(column) and column != word else column


Suits = Callable[[Schema], bool]
"""Rule of a question: true of a schema about which it can be asked."""

Suiting = Callable[[Suits, Collection[str]], Schema | None]
"""Return the schema of the same data that suits a question about some columns; None: none does."""


class NamedSchema(Schema):
    """Schema with the names of columns, by which its fields are found too; made by `named_schema`.

    It equals the schema without them: they are in neither its canonical bytes nor its digest. One
    that was inferred from data may also be inferred anew for a question (`suiting_schema`), unless
    it was pickled.
    """

    __slots__ = ("_column_names", "_plain", "_suiting")

    _column_names: ColumnNames
    _plain: Schema
    _suiting: Suiting | None

    def __getitem__(self, name: str) -> Expression:
        return super().__getitem__(field_called(name, self.fields))

    def __reduce__(self) -> tuple[Callable[..., Schema], tuple[Any, ...]]:
        return named_schema, (self._plain, dict(self._column_names.renamed))


def named_schema(schema: Schema, own: Mapping[str, str], suiting: Suiting | None = None) -> Schema:
    """Return a schema with columns' names by field, beside those that it has already."""
    names = ColumnNames.of(schema, {**names_of(schema).renamed, **own})
    if not names.renamed and suiting is None:
        return schema
    found = NamedSchema.of(schema.name, schema.version, schema.fields)
    parts = {"_column_names": names, "_plain": plain_schema(schema), "_suiting": suiting}
    for name, part in parts.items():
        object.__setattr__(found, name, part)
    return found


def suiting_schema(schema: Schema, suits: Suits, columns: Collection[str]) -> Schema:
    """Return the schema, or that of the same data which suits a question about some columns.

    Whole numbers of few values may be labels, for example. A schema that was not inferred is taken
    as it is, and so is one of which no other suits.
    """
    if not isinstance(schema, NamedSchema) or schema._suiting is None or suits(schema):
        return schema
    return schema._suiting(suits, columns) or schema


def plain_schema(schema: Schema) -> Schema:
    """Return a schema without names of columns."""
    return schema._plain if isinstance(schema, NamedSchema) else schema


def names_of(*schemas: Schema) -> ColumnNames:
    """Return the names of columns of the first of some schemas that has any."""
    named = (one for one in schemas if isinstance(one, NamedSchema))
    renamed = (one._column_names for one in named if one._column_names.renamed)
    return next(renamed, ColumnNames())


def named_schema_from_toml(path: Path) -> Schema:
    """Return the schema in a TOML file (see `schema_files`), with the columns' names in it."""
    schema = schema_from_toml(path)
    with path.open("rb") as file:
        return _with_keys(schema, tomllib.load(file))


def named_schema_from_table(content: Mapping[str, Any], place: str, name: str) -> Schema:
    """Return the schema in a table of that form, as `schema_from_table` does."""
    return _with_keys(schema_from_table(content, place, name), content)


def _with_keys(schema: Schema, content: Mapping[str, Any]) -> Schema:
    return named_schema(schema, dict(zip(schema.fields, content["fields"], strict=True)))


def result_names(schema: Schema, fields: Iterable[str]) -> dict[str, Any]:
    """Return the part of a study's result that has the names of its columns; empty: it has none."""
    renamed = names_of(schema).renamed
    columns = {name: renamed[name] for name in fields if name in renamed}
    return {"columns": columns} if columns else {}


def subject_of(schema: Schema, fields: Collection[str], parameters: Mapping[str, str]) -> str:
    """Name the fields that a learner asks about, in the schema's order, and last a group's."""
    group = parameters.get("group", "")
    others = [name for name in schema.fields if name in fields and name != group]
    by_group = f" by {group}" if group in fields and others else ""
    return f"{', '.join(others)}{by_group}"


def subject_json(
    schema: Schema, fields: Sequence[str], parameters: Mapping[str, str]
) -> dict[str, str]:
    """Return the part of a result that names its subject; empty: its list of fields does."""
    found = subject_of(schema, fields, parameters)
    return {} if found == ", ".join(fields) or len(fields) > MAX_NAMED else {"subject": found}


def with_own_names(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON of a study's result with columns' own names, as a simulation has them."""
    names = ColumnNames.of_result(content)
    found = {key: value for key, value in content.items() if key != "columns"}
    if names.renamed:
        found["fields"] = [names.own[name] for name in found["fields"]]
        found |= {key: names.in_json(found[key]) for key in _SHOWN if key in found}
    return found


def fields_in_json(data: Any) -> Any:
    """Return JSON by `ColumnNames.in_json` with fields' names, as far as schemas in it tell.

    The schemas keep the names of their columns.
    """
    fields = dict(_columns_in(data))
    if all(column == name for column, name in fields.items()):
        return data
    texts = {column: name for column, name in fields.items() if not _reads_as_number(column)}

    def named(part: Any) -> Any:
        if isinstance(part, Mapping):
            if "field" in part and "type" in part:
                return {**part}
            by_field = part.keys() <= fields.keys()
            return {fields[key] if by_field else key: named(one) for key, one in part.items()}
        if isinstance(part, list | tuple):
            return [named(one) for one in part]
        return texts.get(part, part) if isinstance(part, str) else part

    return named(data)


def _columns_in(data: Any) -> Iterable[tuple[str, str]]:
    """Generate the column and the field of each field of schemas in JSON."""
    if isinstance(data, Mapping):
        if isinstance(data.get("field"), str) and "type" in data:
            yield str(data.get("column", data["field"])), data["field"]
        data = list(data.values())
    if isinstance(data, list | tuple):
        for part in data:
            yield from _columns_in(part)


def _reads_as_number(name: str) -> bool:
    return exact_ratio(name) is not None
