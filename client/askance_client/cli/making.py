"""`device init`: a device's folder."""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from askance_client.cli.configuration import configuration_in, read_configuration
from askance_client.cli.event_log import warn
from askance_client.cli.home import DeviceHome
from askance_client.cli.members import read_people
from askance_client.cli.template import Given, device_toml
from askance_client.errors import InvalidParameter
from askance_client.records import KINDS, Origin, kind_of_path
from askance_client.toml_tables import TomlTable

_NAMING = ("--row", "--key", "--rows-by-number", "--one-person")


def init(arguments: argparse.Namespace) -> dict[str, Any]:
    """Make the folder that was asked for; values that were not given are left to fill in.

    A folder that holds a configuration and no device yet keeps that configuration.
    """
    home = DeviceHome(arguments.folder)
    path, place = home.configuration, partial(_beside, home.folder)
    given = given_by(arguments, place)
    text, complete = device_toml(given), given.complete
    provisioned = home.is_provisioned
    if provisioned and given != Given():
        raise InvalidParameter(f"expected no option beside {path}, which has all settings, got one")
    binding: Mapping[str, str] = {}
    with _made(home.folder):  # commands run in it
        if complete or provisioned:  # conflicting options are reported before a file is made
            planned = TomlTable(tomllib.loads(text), str(path))
            people = read_people(
                read_configuration(path) if provisioned else configuration_in(planned, path)
            )
            warn(people.warnings)
            binding = people.binding
        home = DeviceHome.create(home.folder, None if provisioned else text, binding)
    return {
        "folder": str(home.folder),
        "device_id": home.secret().device().device_id.hex(),
        "configuration": str(path),
        "complete": complete or provisioned,
    }


def tell_init(result: dict[str, Any]) -> str:
    """Describe what was made, and what is left to do."""
    made = f"device {result['device_id']} in {result['folder']}"
    if result["complete"]:
        return f"{made}\nnext: enroll, then run"
    return f"{made}\nnext: fill in {result['configuration']}, enroll, then run"


def given_by(arguments: argparse.Namespace, place: Callable[[Path], Path]) -> Given:
    """Return the values that options give; `place` makes a path what is written for it."""
    got = [
        one for one in _NAMING if getattr(arguments, one[2:].replace("-", "_")) not in (None, False)
    ]
    if len(got) > 1:
        raise InvalidParameter(f"expected one of {', '.join(_NAMING)}, got {' and '.join(got)}")
    names = {field.name for field in fields(Given)}
    found = {name: value for name, value in vars(arguments).items() if name in names}
    found |= {name: place(found[name]) for name in ("ca", "schema") if found[name] is not None}
    return Given(
        **found | {"origin": _origin(place, arguments), "analyst": tuple(arguments.analyst)}
    )


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Make a folder for the length of a block, and take it away again if the block fails."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        DeviceHome(folder).make_folder()
        yield
    except BaseException:
        with suppress(OSError):
            for path in missing:
                path.rmdir()
        raise


def _origin(place: Callable[[Path], Path], arguments: argparse.Namespace) -> Origin | None:
    """The place of the records, by --records, or by --data, whose kind its suffix tells."""
    if arguments.data is not None and arguments.records is not None:
        raise InvalidParameter("expected one of --data and --records, got both")
    origin: Origin | None = arguments.records
    if arguments.data is not None:
        path = str(arguments.data)
        origin = Origin(kind_of_path(path), (path,))
    if arguments.query is not None and (origin is None or not KINDS[origin.kind].queried):
        raise InvalidParameter("--query: expected --records sqlite:FILE or duckdb:FILE, got none")
    if origin is None:
        return None
    where = origin.where
    if KINDS[origin.kind].key == "data":
        where = (str(place(Path(where[0]))),)
    return Origin(origin.kind, where, arguments.query)


def _beside(folder: Path, path: Path) -> Path:
    """A path as it is written into the folder's configuration: as the command's caller meant it."""
    whole, home = path.resolve(), folder.resolve()
    return whole.relative_to(home) if whole.is_relative_to(home) else whole
