"""`askance aggregator restore`: a new store of a backup."""

from __future__ import annotations

import argparse
from pathlib import Path

from askance.cli.aggregator.backup import print_manifest
from askance.cli.aggregator.common import (
    add_command,
    add_configuration,
    add_store,
    configuration_of,
    note_command,
)

_RESTORES = (
    "Makes the configured store of a backup: a SQLite file where none is, or a PostgreSQL database"
    " without devices and studies. Whatever came after the backup is not in it: devices deliver"
    " again what they are asked for, from their ledgers and without a second charge. The restored"
    " audit log goes on with an entry of it."
)


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    restore = add_command(
        commands,
        "restore",
        _restore,
        summary="make a new store of a backup",
        description=_RESTORES,
    )
    restore.add_argument("file", type=Path, metavar="FILE", help="the backup")
    add_configuration(restore)
    add_store(restore)


def _restore(arguments: argparse.Namespace) -> int:
    from askance_aggregator.clock import system_now_s
    from askance_aggregator.store import open_backup

    store = configuration_of(arguments).store
    with open_backup(arguments.file) as backup:
        store.restore(backup, system_now_s())
        note_command(store, "restore", str(arguments.file), "done")
        print_manifest(arguments.file, backup.manifest.to_json(), arguments)
    if not arguments.json:
        print(f"restored into {store}")
    return 0
