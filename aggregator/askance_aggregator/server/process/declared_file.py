"""Files of declared keys (`declarations`): read with the place of an error, and compared.

A variable of the environment goes before a key of the file: `ASKANCE_AGGREGATOR_LIMITS_STREAMS` for
`streams` of `[limits]`. Its text is what would stand in the file, quotation marks or not.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from askance_aggregator import declarations
from askance_aggregator.server.process.files import SecretSource, SecretVariable
from askance_client.errors import InvalidParameter
from askance_client.printable import unknown_text, value_text
from askance_client.toml_tables import TomlTable, a_text

PREFIX = "ASKANCE_AGGREGATOR_"
_SECRET = ("", "_file", "_env")  # ends of the names of the keys that may give one secret
_SECRET_ITSELF = re.compile(
    r"[0-9A-Fa-f]{64}|whsec_.*|.*(\n|-----BEGIN).*", re.DOTALL
)  # as one is written
_ABSENT = object()
Names = tuple[str, ...]


def variable_of(path: Names) -> str:
    """Return the name of the environment variable of a key."""
    return PREFIX + "_".join(path).upper()


def key_paths(make: Callable[..., object], above: Names = ()) -> Iterator[Names]:
    """Yield the path of each key, those of rows left out: no variable sets a row."""
    for one in declarations.declared_keys(make):
        if isinstance(one.note, declarations.KeyRows):
            continue
        if isinstance(one.note, declarations.KeyTable):
            below = above if isinstance(one.note, declarations.KeyGroup) else (*above, one.name)
            yield from key_paths(one.make, below)
        elif one.type is SecretSource:
            yield from ((*above, one.name + end) for end in _SECRET)
        else:
            yield (*above, one.name)


def read_file(
    make: Callable[..., Any],
    path: Path,
    readers: Mapping[Any, declarations.Read],
    environment: Mapping[str, str],
    instead: Mapping[str, object],
) -> Any:
    """Read a file, and what the environment has in place of it."""
    known = sorted(variable_of(one) for one in key_paths(make))
    unknown = next(
        (name for name in environment if name.startswith(PREFIX) and name not in known), None
    )
    if unknown is not None:
        raise InvalidParameter(f"environment: {unknown_text(unknown, known)}")
    table = TomlTable.of_file(path)
    reading = _Reading(readers, environment, path, instead)
    values = reading.values(make, table, ())
    table.finish()
    return _made(make, values, table)


class _Reading:
    def __init__(
        self,
        readers: Mapping[Any, declarations.Read],
        environment: Mapping[str, str],
        path: Path,
        instead: Mapping[str, object],
    ) -> None:
        self._readers = readers
        self._environment = environment
        self._place, self._folder = str(path), path.parent
        self._instead = instead

    def values(self, make: Callable[..., Any], table: TomlTable, path: Names) -> dict[str, Any]:
        """Return the values that are given, by argument."""
        found = {
            one.argument: self._value(one, table, path) for one in declarations.declared_keys(make)
        }
        return {name: value for name, value in found.items() if value is not _ABSENT}

    def _value(self, one: declarations.DeclaredKey, table: TomlTable, path: Names) -> Any:
        match one.note:
            case declarations.KeyRows():
                return self._rows(one, table)
            case declarations.KeyGroup():
                return _made(one.make, self.values(one.make, table, path), table)
            case declarations.KeyTable():
                return self._table(one, table, (*path, one.name))
        if one.type is SecretSource:
            found = self._secret(one, table, path)
        else:
            found = self._key(one.name, one.note.read or self._readers[one.type], table, path)
        if not path and one.name in self._instead:
            return self._instead[one.name]
        if found is _ABSENT and one.needed:
            table.need(one.name, a_text)  # the refusal of a missing key
        return found

    def _key(self, name: str, read: declarations.Read, table: TomlTable, path: Names) -> Any:
        variable = variable_of((*path, name))
        if variable not in self._environment:
            found = table.get(name, lambda value: (read(value, self._folder),))
            return _ABSENT if found is None else found[0]
        table.get(name, lambda value: value)
        return self._of_variable(variable, read)

    def _of_variable(self, variable: str, read: declarations.Read) -> Any:
        text = self._environment[variable]
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except ValueError:
            value = text
        try:
            return read(value, self._folder)
        except InvalidParameter as error:
            refusal = InvalidParameter(f"environment: {variable}: {error}")
        try:  # a text that looks like another value, as the name "7"
            return read(text, self._folder)
        except InvalidParameter:
            raise refusal from None

    def _secret(self, one: declarations.DeclaredKey, table: TomlTable, path: Names) -> Any:
        """Return the place of a secret: a file (`key`, `key_file`), or a variable (`key_env`)."""
        names = [one.name + end for end in _SECRET]
        given = [name for name in names if variable_of((*path, name)) in self._environment]
        given = given or [name for name in names if name in table.content]
        texts = [self._key(name, _secret_place, table, path) for name in names]
        if len(given) > 1:
            raise InvalidParameter(
                f"{table.place(one.name)}: expected one of {', '.join(names[:2])} and {names[2]},"
                " got several"
            )
        if not given:
            return _ABSENT
        text = texts[names.index(given[0])]
        return SecretVariable(text) if given[0] == names[2] else self._folder / text

    def _table(self, one: declarations.DeclaredKey, table: TomlTable, path: Names) -> Any:
        below = table.table(one.name)
        if below is None and any(
            variable_of(key) in self._environment for key in key_paths(one.make, path)
        ):
            below = TomlTable({}, self._place, f"{'.'.join(path)}.")
        if below is None:
            if one.needed:
                raise InvalidParameter(
                    f"{table.place(one.name)}: expected a table of that name, got none"
                    " (add it as `askance aggregator init` writes it; see docs/deployment.md)"
                )
            return _ABSENT
        return _made(one.make, self.values(one.make, below, path), below)

    def _rows(self, one: declarations.DeclaredKey, table: TomlTable) -> Any:
        place = table.place(one.name)
        rows = table.get(one.name, lambda value: _tables(value, place.rpartition(": ")[2]))
        if rows is None:
            return _ABSENT
        return tuple(self._row(one, row, f"{place}[{at}]") for at, row in enumerate(rows))

    def _row(self, one: declarations.DeclaredKey, content: Mapping[str, Any], place: str) -> Any:
        row = TomlTable(content, place)
        made = _made(one.make, self.values(one.make, row, (place,)), row)
        row.finish()
        return made


def _secret_place(value: object, _: Path) -> str:
    """Return the path of a secret's file, or the name of its variable; show nothing else."""
    text = a_text(value)
    if _SECRET_ITSELF.fullmatch(text):
        raise InvalidParameter(
            "expected the path of a secret's file (or, where the name ends in _env, the name of a"
            " variable), got the secret itself"
        )
    return text


def _made(make: Callable[..., Any], values: Mapping[str, Any], table: TomlTable) -> Any:
    try:
        return make(**values)
    except InvalidParameter as error:
        raise InvalidParameter(f"{table.place('')}{error}") from None


def _tables(value: object, name: str) -> list[Mapping[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise InvalidParameter(f"expected tables, each under [[{name}]], got {value_text(value)}")
    return value


def fixed_differences(
    make: Callable[..., object], before: object, after: object, above: Names = ()
) -> list[str]:
    """Name the keys that differ in two values of `make`, and that wait for the next start."""
    names: list[str] = []
    for one in declarations.declared_keys(make):
        old, new = getattr(before, one.argument), getattr(after, one.argument)
        if old == new:
            continue
        path = (*above, one.name)
        tables = isinstance(one.note, declarations.KeyTable) and isinstance(one.make, type)
        if one.note.fixed or (tables and None in (old, new)):
            names.append(".".join(path))
        elif tables:
            below = above if isinstance(one.note, declarations.KeyGroup) else path
            names += fixed_differences(one.make, old, new, below)
    return names
