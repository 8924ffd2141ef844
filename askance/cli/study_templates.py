"""`askance study templates` and `askance study new`: definitions to begin with."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from askance.cli.arguments import setting
from askance.cli.output import print_json

Adding = Callable[[str, str, Callable[[argparse.Namespace], int]], argparse.ArgumentParser]


def add_templates(add: Adding) -> None:
    """Add both commands.

    Args:
        add: adds a command by its name, summary and function.
    """
    add("templates", "list the studies that new writes", _templates)
    new = add("new", "print a study's definition, to change and submit", _new)
    new.add_argument("template", metavar="TEMPLATE", help="a name that templates lists")
    new.add_argument(
        "--set",
        action="append",
        default=[],
        type=setting,
        metavar="NAME=VALUE",
        help="a value by its key in the file, schema=FILE.toml, or tags=TAG,TAG; may be repeated",
    )


def _templates(arguments: argparse.Namespace) -> int:
    from askance_aggregator.analyst.templates import list_templates

    found = list_templates()
    if arguments.json:
        rows = [
            {"template": one.name, "summary": one.summary, "settings": list(one.settings)}
            for one in found
        ]
        print_json({"templates": rows})
        return 0
    for one in found:
        print(f"{one.name:<17} {one.summary}")
    return 0


def _new(arguments: argparse.Namespace) -> int:
    from askance_aggregator.analyst.templates import find_template

    text = find_template(arguments.template).filled(dict(arguments.set))
    if arguments.json:
        print_json({"template": arguments.template, "definition": text})
    else:
        sys.stdout.write(text)
    return 0
