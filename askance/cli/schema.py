"""`askance schema`."""

from __future__ import annotations

import argparse
from pathlib import Path

from askance.cli.arguments import add_categories, add_delimiter, add_out, check_new, columns
from askance.cli.output import print_json, print_written

NAME = "schema"
SUMMARY = "write the schema that is inferred from a data file, to be edited"
DESCRIPTION = (
    "Infers the fields of a CSV or Parquet file, with their bounds and labels, and prints them as"
    " the TOML file that --schema takes. Bounds and labels that are read from data are facts about"
    " the users in it: replace them by what is known beforehand."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the file, how it is read, and the output."""
    parser.add_argument(
        "data",
        type=Path,
        metavar="FILE.csv|.parquet|NAME",
        help="a file of records, one user per row",
    )
    add_delimiter(parser)
    parser.add_argument("--label", metavar="COLUMN", help="the category to predict")
    add_categories(parser)
    parser.add_argument(
        "--keep",
        type=columns,
        default=(),
        metavar="COLUMN,...",
        help="columns that are not left out as identifiers",
    )
    add_out(parser, "FILE.toml", "write the schema here instead of printing it")


def run(arguments: argparse.Namespace) -> int:
    """Infer the schema and print or write it."""
    from askance_aggregator.queries.tables import table_from_schema
    from askance_aggregator.reports.schemas import toml_of
    from askance_simulation.populations import DataSource
    from askance_simulation.populations.tables import records_of

    check_new(arguments)
    found = records_of(
        DataSource(arguments.data, arguments.delimiter).records(),
        label=arguments.label,
        keep=arguments.keep,
        categories=arguments.categories,
    )
    left_out = {
        name: why for name, why in found.column_types.items() if name not in found.schema.fields
    }
    text = toml_of(found.schema, left_out, found.column_notes.remarks)
    if arguments.out is not None:
        arguments.out.write_text(text, encoding="utf-8")
    if arguments.json:
        content = {"schema": table_from_schema(found.schema), "columns": dict(found.column_types)}
        notes = dict.fromkeys((*found.notes, *found.column_notes.every))
        print_json({**content, "notes": [*notes]})
    elif arguments.out is None:
        print(text, end="")
    else:
        print_written(arguments.out)
    return 0
