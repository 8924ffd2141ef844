"""Tables that a terminal of 80 columns shows whole."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from askance.cli.output import screen

if TYPE_CHECKING:
    from rich.table import Table

_ROOMY = 120
"""Least width, in characters, for columns four apart and heads in one line."""


def table(heads: Sequence[str], *, left: Collection[str] = (), long: Collection[str] = ()) -> Table:
    """Build an empty table, to which rows of cells with markup are added.

    Values are never broken nor cut off while there is space at all: on a narrow screen the heads
    take two lines, and the long columns as many as they need.

    Args:
      heads: of the columns, as text.
      left: those that are not aligned on the right.
      long: those whose values may take several lines.
    """
    from rich.markup import escape
    from rich.table import Table

    roomy = screen().width >= _ROOMY
    found = Table(
        box=None,
        padding=(0, 2) if roomy else (0, 1),
        collapse_padding=not roomy,
        pad_edge=roomy,
    )
    for head in heads:
        found.add_column(
            escape(head if roomy else "\n".join(head.rsplit(" ", 1))),
            justify="left" if head in left else "right",
            no_wrap=head not in long,
            overflow="fold",
        )
    return found
