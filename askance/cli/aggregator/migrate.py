"""`askance aggregator migrate`: the store's schema."""

from __future__ import annotations

import argparse

from askance.cli.aggregator.common import (
    add_command,
    add_configuration,
    add_store,
    configuration_of,
)
from askance.cli.output import print_json

_MIGRATES = (
    "Applies the steps that the store's schema lacks, one transaction each. Stop the aggregator, on"
    " PostgreSQL all replicas, and back up the store first: no step is applied while a process"
    " serves from the store, and migrate is then refused. serve refuses a PostgreSQL store with an"
    " older schema, and brings a SQLite store up to date by itself."
)


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    migrate = add_command(
        commands,
        "migrate",
        _migrate,
        summary="bring the store's schema to this version",
        description=_MIGRATES,
    )
    add_configuration(migrate)
    add_store(migrate)


def _migrate(arguments: argparse.Namespace) -> int:
    store = configuration_of(arguments).store
    version = store.migrate()
    if arguments.json:
        print_json({"store": str(store), "schema": version})
    else:
        print(f"{store}: schema version {version}")
    return 0
