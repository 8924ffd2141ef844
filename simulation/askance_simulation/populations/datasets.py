"""Data sets that ship with the package, found by name wherever a data file is expected.

A data set is made on demand by a pure function, so that nothing is downloaded and no file is
shipped. It is listed by the decorator `dataset`, in its own module; importing the package lists
all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from askance_client.errors import InvalidParameter
from askance_client.records import Table

Rows = list[list[str]]


@dataclass(frozen=True, slots=True)
class DataSet:
    """Entry of a data set.

    Args:
      name: what it is called in place of a file.
      make: makes the rows, a text per column; every call makes the same ones.
    """

    name: str
    summary: str
    columns: tuple[str, ...]
    make: Callable[[], Rows]

    def table(self) -> Table:
        """Return the records as those of a file are returned (see `files.read_file`)."""
        return Table(Path(self.name), self.columns, self.columns, self.make())


_CATALOGUE: dict[str, DataSet] = {}
DATA_SETS: Mapping[str, DataSet] = MappingProxyType(_CATALOGUE)
"""Data sets by name."""


def dataset(
    name: str, summary: str, columns: tuple[str, ...]
) -> Callable[[Callable[[], Rows]], Callable[[], Rows]]:
    """List a data set under `name`; the decorated function makes its rows.

    Raises:
      InvalidParameter: the name is taken.
    """
    if name in _CATALOGUE:
        raise InvalidParameter(f"the data set {name!r} is registered already")

    def listed(make: Callable[[], Rows]) -> Callable[[], Rows]:
        _CATALOGUE[name] = DataSet(name, summary, columns, make)
        return make

    return listed
