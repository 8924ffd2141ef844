"""Backups of the store: made, verified, restored, and the answers that a restored one lacks."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from askance.cli.aggregator.common import (
    add_command,
    add_configured_store,
    configuration_of,
    note_command,
    recorded_at,
)
from askance.cli.output import Failure, print_answer
from askance_aggregator.reports.texts import counted

_VERIFY = "verify"
_BACKS_UP = (
    "Writes the store to one new file, also while the aggregator runs, or reads a backup and"
    " compares its parts with their digests (verify FILE). The configuration, its keys and its"
    " certificates are not in it: keep copies of them elsewhere. The audit log has an entry of it."
)


def add_backup(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command `backup`."""
    what = "back up the store, or verify a backup"
    backup = add_command(commands, "backup", _run_backup, what, _BACKS_UP, add_configured_store)
    backup.add_argument(
        "words",
        nargs="+",
        metavar="FILE",
        help="the new file to write; or the word verify and the file to read",
    )


def _run_backup(arguments: argparse.Namespace) -> int:
    words: list[str] = arguments.words
    if len(words) == 1 and words != [_VERIFY]:
        return _back_up(Path(words[0]), arguments)
    if len(words) == 2 and words[0] == _VERIFY:
        return _verify(Path(words[1]), arguments)
    raise Failure(2, "usage", f"backup: expected FILE, or verify FILE, got {' '.join(words)!r}")


def _back_up(path: Path, arguments: argparse.Namespace) -> int:
    from askance_aggregator.clock import system_now_s
    from askance_aggregator.server.process.control import back_up

    store = configuration_of(arguments).store
    with recorded_at(store, "backup", str(path)):
        written = back_up(store, path, system_now_s(), time.sleep)
    return print_manifest(path, written, arguments)


def _verify(path: Path, arguments: argparse.Namespace) -> int:
    from askance_aggregator.store import check_backup

    return print_manifest(path, check_backup(path).to_json(), arguments)


def print_manifest(
    path: Path, found: Mapping[str, Any], arguments: argparse.Namespace, *more: str
) -> int:
    """Print what a backup has, and more lines."""
    from askance_client.service.clock import utc_text

    size = sum(part["size"] for part in found["parts"])
    facts = ("kind", "schema", "at_unix_s", "devices", "studies")
    content = f"{counted(found['devices'], 'device')}, {counted(found['studies'], 'study')}"
    return print_answer(
        arguments,
        {"file": str(path), **{name: found[name] for name in facts}, "bytes": size},
        f"{path}: a {found['kind']} store of {utc_text(found['at_unix_s'])}, {content}",
        *more,
    )


_RESTORES = (
    "Makes the configured store of a backup: a SQLite file where none is, or a PostgreSQL database"
    " without devices and studies. Whatever came after the backup is not in it: devices deliver"
    " again what they are asked for, from their ledgers and without a second charge. The restored"
    " audit log goes on with an entry of it. A backup of before the store's move (migrate --to) is"
    " refused if the move was noted in this folder. Nothing else is checked: before you restore,"
    " end every aggregator that serves from the store of the backup, wherever it is now."
)


def add_restore(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command `restore`."""
    restore = add_command(commands, "restore", _restore, "make a new store of a backup", _RESTORES)
    restore.add_argument("file", type=Path, metavar="FILE", help="the backup")
    restore.add_argument(
        "--before-move",
        action="store_true",
        help="restore one of before the store's move: the moved store is given up",
    )
    add_configured_store(restore)


def _restore(arguments: argparse.Namespace) -> int:
    from askance_aggregator.clock import system_now_s
    from askance_aggregator.server.process.moved_store import MovedStore
    from askance_aggregator.store import open_backup

    folder: Path = arguments.config.parent
    store, moved = configuration_of(arguments).store, MovedStore.read(folder)
    with open_backup(arguments.file) as backup:
        if moved is not None and not arguments.before_move:
            moved.check_backup(backup.manifest.at_unix_s, f"backup {arguments.file}")
        store.restore(backup, system_now_s())
        note_command(store, "restore", str(arguments.file), "done")
        if moved is not None and arguments.before_move:
            moved.forget(folder)
        found = backup.manifest.to_json()
        return print_manifest(arguments.file, found, arguments, f"restored into {store}")


_COUNTS = (
    "Counts the answers that devices were charged for after the backup and that the restored store"
    " has not, by the numbers of later reports. A device that has not answered since the"
    " restoration is not counted yet. All reports are read; stop an aggregator on SQLite first."
)


def add_losses(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command `losses`."""
    what = "count answers that were lost by a restoration"
    add_command(commands, "losses", _losses, what, _COUNTS, add_configured_store)


def _losses(arguments: argparse.Namespace) -> int:
    from askance_aggregator.studies.losses import losses
    from askance_client.service.clock import utc_text

    with closing(configuration_of(arguments).store.open_to_read()) as store:
        found = losses(store)
    backup_s = found.backup_unix_s or None
    what = f"{counted(found.answers, 'answer')} of {counted(found.devices, 'device')}"
    return print_answer(
        arguments,
        {"backup_unix_s": backup_s, "devices": found.devices, "answers": found.answers},
        "no backup was restored into this store"
        if backup_s is None
        else f"after the backup of {utc_text(backup_s)}: {what} charged, and not in this store",
    )
