"""A device's folder: who it is, its ledgers and its configuration."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from askance.client.durable_files import write_new
from askance.client.errors import StoreError
from askance.client.ledger import LedgerFile
from askance.client.service.identity import Identity

_IDENTITY = "identity.json"
_LEDGER = "ledger.sqlite"
CONFIGURATION = "device.toml"
_ID_BYTES, _TOKEN_BYTES = 16, 32


@dataclass(frozen=True, slots=True)
class DeviceHome:
    """The files of one device, readable by their owner only.

    Args:
      folder: holds `identity.json` (its id and its secret token), `ledger.sqlite` (its own ledger,
        or all of a gateway's members'), `ledger.sqlite.mark` (its high-water mark) and
        `device.toml`.
    """

    folder: Path

    @classmethod
    def create(cls, folder: Path, configuration: str) -> DeviceHome:
        """Makes a new identity, a ledger without a charge, and a configuration of this text.

        Raises:
          StoreError: one of the files is there already (none is ever overwritten), or the disk
            says no.
        """
        home = cls(folder)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"device {folder}: cannot be made: {error.strerror}") from None
        for file in (home._identity, home.configuration):
            if file.exists():
                raise StoreError(f"device {folder}: expected no {file.name} there yet, found one")
        LedgerFile.create(home.ledger_path).close()
        fresh = {"device_id": os.urandom(_ID_BYTES).hex(), "token": os.urandom(_TOKEN_BYTES).hex()}
        home._write(home._identity, json.dumps(fresh))
        home._write(home.configuration, configuration)
        return home

    def _write(self, path: Path, text: str) -> None:
        try:
            write_new(path, text.encode(), mode=0o600)
        except OSError as error:
            raise StoreError(
                f"device {self.folder}: {path.name} cannot be made: {error.strerror}"
            ) from None

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

    def ledgers(self) -> LedgerFile:
        """The ledgers, opened; the caller closes them.

        Raises:
          StoreError: missing, damaged, newer or in use (see `LedgerFile.open`).
        """
        return LedgerFile.open(self.ledger_path)

    @property
    def configuration(self) -> Path:
        """Where the configuration is, unless a command is told of another."""
        return self.folder / CONFIGURATION

    @property
    def _identity(self) -> Path:
        return self.folder / _IDENTITY

    @property
    def ledger_path(self) -> Path:
        """The path of the ledger file; its mark is beside it."""
        return self.folder / _LEDGER
