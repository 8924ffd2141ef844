"""Note of a move in an aggregator's folder, by which a store from before the move is not served.

A move leaves an entry in the audit log, which the moved store goes on with, and with it each later
backup. The note has the entry's number and digest. A backup that was made before the move, or a
copy of the old file, has another entry of that number, or none: serving from it while the moved
store is served would be two aggregators with one identity.

The note is written before the first row is copied, and withdrawn if the move fails: the store is
then as it was. A process that is killed in between leaves it, also where nothing was moved yet; the
move is then done by the same command.

The note is in the folder whose configuration the command was given, and in those that
`init --replica` makes of it. A folder without the note knows nothing of a move.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from askance_aggregator.server.process.files import NotOperable
from askance_aggregator.store import AuditEntry, AuditLog
from askance_client.durable_files import replace_whole, sync
from askance_client.errors import StoreError
from askance_client.service.clock import utc_text

MOVED_NOTE = "store-moved.json"


@dataclass(frozen=True, slots=True)
class MovedStore:
    """Move of a store, as the folder of its aggregator knows it."""

    number: int  # of the entry that the move has made in the audit log
    digest: str  # of that entry, in hexadecimal
    to: str  # address of the store since then, without a password
    at_unix_s: int

    @classmethod
    def of(cls, entry: AuditEntry, to: str, at_unix_s: int) -> MovedStore:
        """Return the move that has begun with an entry of the audit log."""
        return cls(entry.number, entry.digest.hex(), to, at_unix_s)

    @classmethod
    def read(cls, folder: Path) -> MovedStore | None:
        """Return the last move that is noted in a folder; None: there was none.

        Raises:
          NotOperable: the note cannot be read.
        """
        path = folder / MOVED_NOTE
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            raise NotOperable(f"{path}: expected the note of a move, got {error}") from None

    def write(self, folder: Path) -> None:
        """Note the move; raise OSError if the folder cannot be written."""
        replace_whole(folder / MOVED_NOTE, json.dumps(asdict(self)).encode())

    @staticmethod
    def forget(folder: Path) -> None:
        """Remove the note: from now on the store from before the move is the one to serve."""
        (folder / MOVED_NOTE).unlink(missing_ok=True)
        sync(folder)

    def check_backup(self, at_unix_s: int, what: str) -> None:
        """Raise StoreError if a backup was made before the move, by the clocks of both."""
        if at_unix_s < self.at_unix_s:
            raise StoreError(f"{what}: {self._refusal}, got one of {utc_text(at_unix_s)}")

    def check(self, log: AuditLog, what: str) -> None:
        """Raise StoreError if a store does not go on from the moved one."""
        found = log.entries(self.number - 1, 1)
        if [one.digest.hex() for one in found] != [self.digest]:
            raise StoreError(f"{what}: {self._refusal}, got one without the move in its audit log")

    @property
    def _refusal(self) -> str:
        return (
            f"expected the store that was moved to {self.to} on {utc_text(self.at_unix_s)}, or a"
            " backup of it (restore --before-move gives that store up)"
        )
