"""`device init`: a device's folder."""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from askance_client.cli.configuration import configuration_in
from askance_client.cli.event_log import warn
from askance_client.cli.home import DeviceHome
from askance_client.cli.members import read_people
from askance_client.cli.template import Given, device_toml
from askance_client.errors import InvalidParameter
from askance_client.records import KINDS, Origin, kind_of_path
from askance_client.toml_tables import TomlTable


def init(arguments: argparse.Namespace) -> dict[str, Any]:
    """Make the folder that was asked for; values that were not given are left to fill in."""
    folder: Path = arguments.folder
    named = {
        "--row": arguments.row is not None,
        "--key": arguments.key is not None,
        "--rows-by-number": arguments.rows_by_number,
        "--one-person": arguments.one_person,
    }
    if sum(named.values()) > 1:
        got = " and ".join(option for option, present in named.items() if present)
        raise InvalidParameter(f"expected one of {', '.join(named)}, got {got}")
    given = Given(
        aggregator=arguments.aggregator,
        ca=_beside(folder, arguments.ca),
        analysts=arguments.analyst,
        life=arguments.life_epsilon,
        day=arguments.day_epsilon,
        study=arguments.study_epsilon,
        schema=_beside(folder, arguments.schema),
        origin=_origin(folder, arguments),
        row=arguments.row,
        key=arguments.key,
        by_number=arguments.rows_by_number,
        one_person=arguments.one_person,
        several=arguments.several,
    )
    text = device_toml(given)
    binding: Mapping[str, str] = {}
    if given.complete:  # conflicting options are reported before anything is made
        path = DeviceHome(folder).configuration
        people = read_people(configuration_in(TomlTable(tomllib.loads(text), str(path)), path))
        warn(people.warnings)
        binding = people.binding
    home = DeviceHome.create(folder, text, binding)
    return {
        "folder": str(folder),
        "device_id": home.secret().device().device_id.hex(),
        "configuration": str(home.configuration),
        "complete": given.complete,
    }


def tell_init(result: dict[str, Any]) -> str:
    """Describe what was made, and what is left to do."""
    made = f"device {result['device_id']} in {result['folder']}"
    if result["complete"]:
        return f"{made}\nnext: enroll, then run"
    return f"{made}\nnext: fill in {result['configuration']}, enroll, then run"


def _origin(folder: Path, arguments: argparse.Namespace) -> Origin | None:
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
        where = (str(_beside(folder, Path(where[0]))),)
    return Origin(origin.kind, where, arguments.query)


def _beside(folder: Path, path: Path | None) -> Path | None:
    """A path as it is written into the folder's configuration: as the command's caller meant it."""
    if path is None:
        return None
    whole, home = path.resolve(), folder.resolve()
    return whole.relative_to(home) if whole.is_relative_to(home) else whole
