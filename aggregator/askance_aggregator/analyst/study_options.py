"""A study from options: those of the command line, and the fields of the console's form.

The options are the keys of a definition's file (`definitions`), without the tables that they stand
in. Whatever makes a study from options makes the table here, so that equal options are equal bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from askance_client.errors import InvalidParameter
from askance_client.printable import value_text

KEYS = ("schema", "epsilon", "beta", "confidence", "purpose", "days", "fields", "most_answers")
TABLES: Mapping[str, tuple[str, ...]] = {
    "rounds": ("deadline_s", "least_answers", "waves"),
    "repeat": ("every", "epochs"),
    "keep": ("reports_days", "results_days"),
    "population": ("tags",),
    "schedule": ("start",),
}
OPTIONS = (*KEYS, *(key for keys in TABLES.values() for key in keys))
"""All options, in the order of the file."""


def table_of_options(
    learner: str, options: Mapping[str, Any], parameters: Mapping[str, str]
) -> dict[str, Any]:
    """Return the table of a study's definition (see `definition_of_table`).

    Args:
      learner: its name.
      options: values by the names of `OPTIONS`; one that is left out has its default.
      parameters: of the learner, text by name.
    """
    tables = {
        name: {key: options[key] for key in keys if key in options} for name, keys in TABLES.items()
    }
    return {
        "learner": learner,
        **{key: options[key] for key in KEYS if key in options},
        "parameters": dict(parameters),
        **{name: table for name, table in tables.items() if table},
    }


def definition_text(table: Mapping[str, Any]) -> str:
    """Return the TOML file of a definition's table.

    Args:
      table: texts, whole numbers, lists and tables of them; as `table_of_options` returns it.

    Raises:
      InvalidParameter: a value of another form, as a date.
    """
    lines = [f"{key} = {_value(one)}" for key, one in table.items() if not isinstance(one, dict)]
    for name, one in table.items():
        if isinstance(one, dict) and one:
            lines += _table_lines(name, one)
    return "\n".join(lines) + "\n"


def _table_lines(name: str, table: Mapping[str, Any]) -> list[str]:
    """Return the lines of a table; tables in it are inline, each on a line of its own."""
    lines = ["", f"[{name}]"]
    lines += [f"{_key(key)} = {_value(one)}" for key, one in table.items() if key != "fields"]
    if isinstance(fields := table.get("fields"), dict):
        lines += ["", f"[{name}.fields]"]
        lines += [f"{_key(key)} = {_value(one)}" for key, one in fields.items()]
    return lines


def _key(name: str) -> str:
    bare = name.replace("_", "").replace("-", "")
    return name if bare.isascii() and bare.isalnum() else _value(name)


def _value(one: Any) -> str:
    if isinstance(one, dict):
        inner = ", ".join(f"{_key(key)} = {_value(item)}" for key, item in one.items())
        return f"{{ {inner} }}"
    if isinstance(one, list | tuple):
        return f"[{', '.join(map(_value, one))}]"
    if not isinstance(one, str | int | float):
        raise InvalidParameter(
            f"schema: expected texts, numbers, lists and tables, got {value_text(str(one))}"
        )
    # A TOML text takes JSON's escapes, and does not take the character 127 as it is.
    return json.dumps(one, ensure_ascii=False).replace("\x7f", "\\u007f")
