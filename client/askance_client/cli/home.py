"""Folder of a device: its identity, its ledgers and its configuration."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from askance_client.cli.counters import OwnCounter
from askance_client.durable_files import write_new
from askance_client.errors import StoreError
from askance_client.ledger import LedgerFile
from askance_client.owner.control import SOCKET
from askance_client.service.identity import SECRET_BYTES, Secret

_IDENTITY = "identity.json"
_LEDGER = "ledger.sqlite"
_CONSENTS = "consents.sqlite"
CONFIGURATION = "device.toml"
_ANOTHER_FOLDER = (
    "set that again in device.toml, or make another folder (init), whose ledger does not know what"
    " was spent in this one"
)


@dataclass(frozen=True, slots=True)
class DeviceHome:
    """The files of one device, readable by their owner only.

    Args:
      folder: holds `identity.json` (the secret that identities are derived from), `ledger.sqlite`
        (its own ledger, or all of a gateway's members'), `ledger.sqlite.mark` (its high-water mark)
        and `device.toml`. A device that runs adds `consents.sqlite`, the owner's decisions on
        studies, and, while it runs, the socket `control.sock`.
    """

    folder: Path

    @classmethod
    def create(
        cls, folder: Path, configuration: str | None, binding: Mapping[str, str] | None = None
    ) -> DeviceHome:
        """Make a new secret, a ledger without a charge, and a configuration of this text.

        The folder is made if it is not there. Without a text the configuration that is there stays.
        The ledger is bound to the texts of `binding`; without any, its first use binds it.

        Raises:
          StoreError: one of the files is there already (none is ever overwritten), or the disk
            says no.
        """
        home = cls(folder)
        home.make_folder()
        for file in (home._identity, *([] if configuration is None else [home.configuration])):
            if file.exists():
                raise StoreError(f"device {folder}: expected no {file.name} there yet, found one")
        with closing(LedgerFile.create(home.ledger_path)) as ledgers:
            if binding:
                ledgers.bind(binding)
        home._write(home._identity, json.dumps({"secret": os.urandom(SECRET_BYTES).hex()}))
        if configuration is not None:
            home._write(home.configuration, configuration)
        return home

    def make_folder(self) -> None:
        """Make the folder, for its owner only, if it is not there."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"device {self.folder}: cannot be made: {error.strerror}") from None

    @property
    def is_provisioned(self) -> bool:
        """True if the folder holds a configuration and no device was made in it."""
        made = self._identity.exists() or self.ledger_path.exists()
        return self.configuration.exists() and not made

    def _write(self, path: Path, text: str) -> None:
        try:
            write_new(path, text.encode(), mode=0o600)
        except OSError as error:
            raise StoreError(
                f"device {self.folder}: {path.name} cannot be made: {error.strerror}"
            ) from None

    def secret(self) -> Secret:
        """Return the secret that the identities of this folder are derived from."""
        try:
            found = json.loads(self._identity.read_text(encoding="utf-8"))
            return Secret(bytes.fromhex(found["secret"]))
        except OSError as error:
            raise StoreError(f"device {self.folder}: no identity: {error.strerror}") from None
        except (ValueError, KeyError, TypeError):
            raise StoreError(
                f"device {self.folder}: expected a sound {_IDENTITY}, got a damaged one"
            ) from (None)

    def ledgers(self, counter: OwnCounter | None = None) -> LedgerFile:
        """The ledgers, opened; the caller closes them.

        The counter is outside the folder; None: there is none, or nothing is charged.
        """
        return LedgerFile.open(self.ledger_path, counter)

    def bound(self, binding: Mapping[str, str], counter: OwnCounter | None = None) -> LedgerFile:
        """Open the ledgers for use with a configuration; the caller closes them.

        Ledgers that are not bound yet are bound to `binding` (see `naming.binding`), durably.

        Raises:
          StoreError: as of `ledgers`; or the ledgers are bound to other texts, or not bound though
            there are charges; nothing was changed.
        """
        file = self.ledgers(counter)
        try:
            wrong = mismatches(file.bind(binding), binding)
            if wrong:
                raise StoreError(f"device {self.folder}: {'; '.join(wrong)}; {_ANOTHER_FOLDER}")
        except BaseException:
            file.close()
            raise
        return file

    @property
    def configuration(self) -> Path:
        """Path of the configuration, unless a command is given another."""
        return self.folder / CONFIGURATION

    @property
    def _identity(self) -> Path:
        return self.folder / _IDENTITY

    @property
    def consents_path(self) -> Path:
        """The path of the owner's decisions on studies."""
        return self.folder / _CONSENTS

    @property
    def certificate_path(self) -> Path:
        """The path of the certificate and its key, which `enroll` asks the aggregator for."""
        return self.folder / "certificate.json"

    @property
    def enrolment_path(self) -> Path:
        """The path of the digest of the devices that were enrolled."""
        return self.folder / "enrolled"

    @property
    def control_path(self) -> Path:
        """The path of the socket of a running device."""
        return self.folder / SOCKET

    @property
    def ledger_path(self) -> Path:
        """The path of the ledger file; its mark is beside it."""
        return self.folder / _LEDGER


def mismatches(bound: Mapping[str, str], configured: Mapping[str, str]) -> list[str]:
    """Compare what a ledger is bound to with a configuration; a ledger that is not bound fits any.

    Returns:
      A line per difference, with both values; they are parts of configurations, not of records.
    """
    if not bound:
        return []
    return [
        f"{name}: expected {bound.get(name)!r}, to which the ledger is bound, got {value!r}"
        for name, value in configured.items()
        if bound.get(name) != value
    ]
