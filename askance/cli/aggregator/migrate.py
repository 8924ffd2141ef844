"""`askance aggregator migrate`: the store's schema, and the store's move to another database."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from askance.cli.aggregator.common import add_command, add_configured_store, configuration_of
from askance.cli.output import Failure, print_answer
from askance_aggregator.reports.texts import counted

if TYPE_CHECKING:
    from askance_aggregator.server.process.moved_store import MovedStore

_ACTION = "migrate"
_UNNOTED = (
    "the move cannot be noted there; a backup from before it can be restored and served unnoticed",
    "the note of a move that failed stays there; restore needs --before-move",
)
_MIGRATES = (
    "Applies the steps that the store's schema lacks, one transaction each. Stop the aggregator, on"
    " PostgreSQL all replicas, and back up the store first: no step is applied while a process"
    " serves from the store, and migrate is then refused. serve refuses a PostgreSQL store with an"
    " older schema, and brings a SQLite store up to date by itself. With --to it moves the store to"
    " an empty database of the other kind, SQLite to PostgreSQL or back, and compares both. From"
    " then on the old store is refused; a move that broke off is started again by the same command."
)


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    what = "bring the store's schema to this version, or move the store"
    migrate = add_command(commands, "migrate", _migrate, what, _MIGRATES)
    migrate.add_argument(
        "--to",
        metavar="URL",
        help="move the store there: postgresql://USER@HOST:PORT/DATABASE or sqlite:///FILE",
    )
    migrate.add_argument(
        "--to-password-file",
        type=Path,
        metavar="FILE",
        help="the file with the password of --to; default PGPASSFILE or ~/.pgpass",
    )
    add_configured_store(migrate)


def _migrate(arguments: argparse.Namespace) -> int:
    if arguments.to is not None:
        return _move(arguments)
    if arguments.to_password_file is not None:
        raise Failure(2, "usage", "--to-password-file: expected --to as well")
    store = configuration_of(arguments).store
    version = store.migrate()
    content = {"store": str(store), "schema": version}
    return print_answer(arguments, content, f"{store}: schema version {version}")


def _note_in_folder(moved: MovedStore | None, folder: Path) -> None:
    """Note the last move in the configuration's folder, for `serve` and `restore`; None: none."""
    from askance_aggregator.server.process.moved_store import MovedStore

    try:
        if moved is None:
            MovedStore.forget(folder)
        else:
            moved.write(folder)
    except OSError as error:
        print(
            f"askance: warning: {folder}: {_UNNOTED[moved is None]} ({error.strerror})",
            file=sys.stderr,
        )


def _move(arguments: argparse.Namespace) -> int:
    from askance.cli.progress import working
    from askance_aggregator.clock import system_now_s
    from askance_aggregator.server.callers.recorder import record_command
    from askance_aggregator.server.process.moved_store import MovedStore
    from askance_aggregator.store import (
        MOVE_ID_BYTES,
        AuditLog,
        MoveContext,
        move_store,
        store_location,
    )
    from askance_aggregator.store.audit import BEGUN

    try:
        target = store_location(arguments.to, Path.cwd())
        if arguments.to_password_file is not None:
            target = target.with_password_file(arguments.to_password_file)
    except ValueError as error:
        raise Failure(2, "usage", f"--to: {error}") from None
    source = configuration_of(arguments).store
    folder: Path = arguments.config.parent
    subject, before = f"from {source} to {target}", MovedStore.read(folder)

    def note(log: AuditLog, outcome: str) -> None:
        if outcome == BEGUN and before is not None:
            before.check(log, f"store {source}")
        if outcome.startswith("failed"):  # nothing was moved
            _note_in_folder(before, folder)
        record_command(log, _ACTION, subject, now_s=system_now_s, outcome=outcome)
        entry = log.head() if outcome == BEGUN else None
        if entry is not None:  # in every store that goes on from here, and in none of before
            _note_in_folder(MovedStore.of(entry, str(target), system_now_s()), folder)

    with working("moving the store") as show:
        context = MoveContext(os.urandom(MOVE_ID_BYTES), system_now_s(), note, show)
        moved = move_store(source, target, context)
    tables = {
        name: {"rows": table.rows, "digest": table.digest} for name, table in moved.tables.items()
    }
    content = ", ".join(
        counted(moved.rows(table), noun)
        for table, noun in (("devices", "device"), ("studies", "study"), ("reports", "report"))
    )
    return print_answer(
        arguments,
        {"store": str(source), "to": str(target), "tables": tables},
        f"moved {source} to {target}: {content}",
        f"  {len(moved.tables)} tables with equal counts and digests; audit log whole,"
        f" {counted(moved.audit_entries, 'entry')}",
        f'  next: set store = "{target}" in {arguments.config}, and start the aggregator',
        "  the old store is refused from now on, and so are its backups where this is known",
    )
