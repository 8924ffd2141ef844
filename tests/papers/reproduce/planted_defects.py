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
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from askance_papers.reproduce import REPRODUCTIONS, Effort, Reproduction, Setting, find
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


def reproduced(name: str, defect: Defect | None = None) -> Reproduction:
    """Run a reproduction at its quick setting, with a defect or without."""
    setting = Setting(Effort.QUICK, Seed.of(SEED))
    if defect is None:
        return find(name).reproduce(setting)
    with defect.planted():
        return find(name).reproduce(setting)


def main(names: Sequence[str]) -> None:
    """Print the table, all rows or those of some reproductions."""
    print("| reproduction | defect planted | holds |\n|---|---|---|")
    for name in names or REPRODUCTIONS:
        for defect in (None, *DEFECTS[name]):
            summary = "none" if defect is None else defect.summary
            holds = "yes" if reproduced(name, defect).holds else "no"
            print(f"| `{name}` | {summary} | {holds} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
