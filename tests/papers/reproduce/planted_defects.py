"""Defects that are planted in the reproductions' mechanisms, and whether these still hold.

Run as a program, it prints the table of docs/papers.md: reproduction, defect, holds.

    python -m tests.papers.reproduce.planted_defects [NAME ...]

A new reproduction adds two defects or more under its name to `DEFECTS` of its source's module in
the package `planted`, and one to `PROMISES` there, under the kind of promise that it breaks. A
defect names one attribute of a module or class ("package.module:Class.attribute") and a function
that makes the wrong one of the right one. It is in the mechanism that the reproduction is about,
not in a check.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import wraps
from importlib import import_module
from inspect import getmembers, isfunction
from types import MappingProxyType, ModuleType
from typing import Any
from unittest import mock

from askance_papers.reproduce import REPRODUCTIONS, Effort, Reproduction, Row, Setting, find
from askance_simulation.randomness import Seed
from tests.papers.reproduce.planted import cm08, drv10, klnrs08, notes
from tests.papers.reproduce.planted.defect import Defect, Defects
from tests.papers.reproduce.planted.promises import PROMISES

SEED = 1
_BY_SOURCE: Defects = {**notes.DEFECTS, **klnrs08.DEFECTS, **drv10.DEFECTS, **cm08.DEFECTS}
DEFECTS: Defects = MappingProxyType(
    {
        name: (*defects, *(one for by_name in PROMISES.values() for one in by_name.get(name, ())))
        for name, defects in _BY_SOURCE.items()
    }
)
NOT_COVERED: Mapping[str, str] = MappingProxyType({})
"""Reproductions that have no planted defects, each with the reason."""


class Untrue(Exception):
    """A row that does not hold."""


def holds(name: str, defect: Defect | None = None) -> bool:
    """Return whether a reproduction holds; it goes on only while its rows do."""
    try:
        return reproduced(name, defect).holds
    except Untrue:
        return False


def reproduced(name: str, defect: Defect | None = None) -> Reproduction:
    """Run a reproduction at its quick setting, with a defect or without.

    Raises:
      Untrue: at the first row of a function of the reproduction's module that does not hold.
    """
    entry = find(name)
    module = import_module(f"askance_papers.reproduce.{entry.module}")
    planted = nullcontext() if defect is None else defect.planted()
    with planted, _untrue_rows_raised(module):
        return entry.reproduce(Setting(Effort.QUICK, Seed.of(SEED)))


@contextmanager
def _untrue_rows_raised(module: ModuleType) -> Iterator[None]:
    with ExitStack() as replaced:
        for name, function in getmembers(module, isfunction):
            check = _CHECKS.get(function.__annotations__.get("return", ""))
            if check is not None:
                replaced.enter_context(mock.patch.object(module, name, _checking(function, check)))
        yield


def _checking(function: Callable[..., Any], check: Callable[[Any], Any]) -> Callable[..., Any]:
    @wraps(function)
    def checked(*given: Any, **named: Any) -> Any:
        return check(function(*given, **named))

    return checked


def _true(row: Row) -> Row:
    if row.get("holds") not in (None, True):
        raise Untrue(row)
    return row


_CHECKS: Mapping[str, Callable[[Any], Any]] = {
    "Row": _true,
    "Iterator[Row]": lambda rows: map(_true, rows),
    "list[Row]": lambda rows: [*map(_true, rows)],
}


def main(names: Sequence[str]) -> None:
    """Print the table, all rows or those of some reproductions."""
    print("| reproduction | defect planted | holds |\n|---|---|---|")
    for name in names or REPRODUCTIONS:
        for defect in (None, *DEFECTS[name]):
            summary = "none" if defect is None else defect.summary
            answer = "yes" if holds(name, defect) else "no"
            print(f"| `{name}` | {summary} | {answer} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
