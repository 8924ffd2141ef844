"""`device init`: a device's folder."""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path
from typing import Any

from askance.client.command.configuration import configuration_in
from askance.client.command.home import DeviceHome
from askance.client.command.people import read_people
from askance.client.command.template import Given, device_toml
from askance.client.errors import InvalidParameter
from askance.client.toml_tables import TomlTable


def init(arguments: argparse.Namespace) -> dict[str, Any]:
    """Makes the folder that was asked for; what was not said is left to fill in."""
    folder: Path = arguments.folder
    if arguments.row is not None and arguments.key is not None:
        raise InvalidParameter("expected --row (one person) or --key (all rows), found both")
    given = Given(
        aggregator=arguments.aggregator,
        ca=_beside(folder, arguments.ca),
        analysts=arguments.analyst,
        life=arguments.life_epsilon,
        day=arguments.day_epsilon,
        study=arguments.study_epsilon,
        schema=_beside(folder, arguments.schema),
        data=_beside(folder, arguments.data),
        row=arguments.row,
        key=arguments.key,
    )
    text = device_toml(given)
    if given.complete:  # what does not go together is said before anything is made
        path = DeviceHome(folder).configuration
        read_people(configuration_in(TomlTable(tomllib.loads(text), str(path)), path))
    home = DeviceHome.create(folder, text)
    return {
        "folder": str(folder),
        "device_id": home.identity().device_id.hex(),
        "configuration": str(home.configuration),
        "complete": given.complete,
    }


def tell_init(result: dict[str, Any]) -> str:
    """What was made, and what is left to do."""
    made = f"device {result['device_id']} in {result['folder']}"
    if result["complete"]:
        return f"{made}\nnext: enroll, then run"
    return f"{made}\nnext: fill in {result['configuration']}, enroll, then run"


def _beside(folder: Path, path: Path | None) -> Path | None:
    """A path as it is written into the folder's configuration: as the command's caller meant it."""
    if path is None:
        return None
    whole, home = path.resolve(), folder.resolve()
    return whole.relative_to(home) if whole.is_relative_to(home) else whole
