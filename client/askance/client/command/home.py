"""A device's folder: who it is, and its ledger."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from askance.client.errors import StoreError
from askance.client.ledger import SqliteLedger
from askance.client.service.identity import Identity

_IDENTITY = "identity.json"
_LEDGER = "ledger.sqlite"
_ID_BYTES, _TOKEN_BYTES = 16, 32


@dataclass(frozen=True, slots=True)
class DeviceHome:
    """The files of one device, readable by their owner only.

    Args:
      folder: holds `identity.json` (its id and its secret token) and `ledger.sqlite`.
    """

    folder: Path

    @classmethod
    def create(cls, folder: Path) -> DeviceHome:
        """Makes a new identity and an empty ledger.

        Raises:
          StoreError: one of the files is there already (neither is ever overwritten), or the disk
            says no.
        """
        home = cls(folder)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"device {folder}: cannot be made: {error.strerror}") from None
        if home._identity.exists():
            raise StoreError(f"device {folder}: expected no {_IDENTITY} there yet, found one")
        SqliteLedger.create(home._ledger).close()
        fresh = {"device_id": os.urandom(_ID_BYTES).hex(), "token": os.urandom(_TOKEN_BYTES).hex()}
        try:
            descriptor = os.open(home._identity, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(fresh, file)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StoreError(f"device {folder}: no identity was made: {error.strerror}") from None
        return home

    def identity(self) -> Identity:
        """Who this device is to its aggregator.

        Raises:
          StoreError: no identity, or a damaged one.
        """
        try:
            found = json.loads(self._identity.read_text(encoding="utf-8"))
            return Identity(bytes.fromhex(found["device_id"]), bytes.fromhex(found["token"]))
        except OSError as error:
            raise StoreError(f"device {self.folder}: no identity: {error.strerror}") from None
        except (ValueError, KeyError, TypeError):
            raise StoreError(
                f"device {self.folder}: expected a sound {_IDENTITY}, found none"
            ) from (None)

    def ledger(self) -> SqliteLedger:
        """The device's ledger, opened.

        Raises:
          StoreError: missing, damaged, newer or in use (see `SqliteLedger.open`).
        """
        return SqliteLedger.open(self._ledger)

    @property
    def _identity(self) -> Path:
        return self.folder / _IDENTITY

    @property
    def _ledger(self) -> Path:
        return self.folder / _LEDGER
