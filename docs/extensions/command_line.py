"""The directive `command-line`: every command with its help, from the program's own parsers."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

_COLUMNS = "92"  # of the help's text: as many as a block of a page 1,280 px wide shows


def commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and, depth first, the parsers of its commands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in dict.fromkeys(action.choices.values()):
                yield from commands(inner)


class CommandLine(Directive):
    """Show the help of a command and of all commands under it."""

    required_arguments: ClassVar[int] = 0

    def run(self) -> list[nodes.Node]:
        """Return a section per command."""
        from askance.cli.main import parser

        os.environ["COLUMNS"] = _COLUMNS
        shown: list[nodes.Node] = []
        for command in commands(parser()):
            section = nodes.section(ids=[nodes.make_id(command.prog)])
            section += nodes.title(text=command.prog)
            section += nodes.literal_block(text=command.format_help(), language="text")
            shown.append(section)
        return shown


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.add_directive("command-line", CommandLine)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
