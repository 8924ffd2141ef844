"""Settings of a running aggregator that are read again: at SIGHUP, or `aggregator reload`."""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from askance_aggregator.server.devices import (
    CertificateIssuer,
    EnrolmentVerifier,
    IssuedCertificate,
)
from askance_aggregator.server.process.configuration import Configuration, TlsFiles
from askance_aggregator.server.process.credentials import ListenerTls, read_pair
from askance_aggregator.server.process.declared_file import fixed_differences
from askance_aggregator.server.process.device_authority import read_device_authority
from askance_aggregator.server.process.files import NotOperable, SecretSource, read_needed
from askance_aggregator.server.process.logs import logger
from askance_aggregator.server.process.tokens import read_tokens
from askance_aggregator.store import CertificateHolder, EnrolmentRefused
from askance_client.errors import AskanceError

_LOG = logger(__name__)


class CurrentIssuer:
    """Issuer that another may replace (see `devices.CertificateIssuer`)."""

    def __init__(self, issuer: CertificateIssuer) -> None:
        self.current = issuer

    def issue(self, signing_request: bytes, holder: CertificateHolder) -> IssuedCertificate:
        return self.current.issue(signing_request, holder)


class CurrentEnrolment:
    """Verifier of enrolment tokens that another may replace; None: no token is accepted."""

    def __init__(self, tokens: EnrolmentVerifier | None) -> None:
        self.current = tokens

    @classmethod
    def of(cls, key: SecretSource | None, now_s: Callable[[], int]) -> CurrentEnrolment:
        """Read the key; None: there is none."""
        return cls(None if key is None else read_tokens(key, now_s))

    def verify(self, token: bytes) -> tuple[bytes, int]:
        if self.current is None:
            raise EnrolmentRefused("enrolment: expected devices that are enrolled already")
        return self.current.verify(token)


@dataclass(slots=True)
class TlsParts:
    """TLS of a running aggregator."""

    certified: ListenerTls
    issuer: CurrentIssuer

    @classmethod
    def of(cls, tls: TlsFiles, now_s: Callable[[], int]) -> TlsParts:
        """Read everything."""
        callers = read_needed(tls.devices.authority, "devices' authority")
        issuer = read_device_authority(tls.devices, now_s)
        return cls(ListenerTls(read_pair(tls), callers), CurrentIssuer(issuer))

    def replace(self, other: TlsParts) -> None:
        """Show and trust from the next handshake on what has just been read."""
        self.certified.use(other.certified)
        self.issuer.current = other.issuer.current


@dataclass(frozen=True, slots=True)
class Rereading:
    """Wish that the configuration be read again.

    Args:
      asked: set by the caller, cleared when it is done.
    """

    asked: threading.Event
    read: Callable[[], Configuration]


class Reloader:
    """Reads the configuration again, and gives each part what has changed.

    A configuration, certificate or key that cannot be read changes nothing.

    Args:
      configuration: as it was at the start.
      tls: None: plain text.
      change: given the new configuration, for limits and analysts' keys.
    """

    def __init__(
        self,
        configuration: Configuration,
        rereading: Rereading,
        tls: TlsParts | None,
        enrolment: CurrentEnrolment,
        change: Callable[[Configuration], None],
        now_s: Callable[[], int],
    ) -> None:
        self._configuration = configuration
        self._rereading = rereading
        self._tls = tls
        self._enrolment = enrolment
        self._change = change
        self._now_s = now_s

    def look(self) -> None:
        """Reload if that was asked for since the last look."""
        if self._rereading.asked.is_set():
            self._rereading.asked.clear()
            self.reload()

    def reload(self) -> None:
        """Read everything, then change what differs; log the outcome in one line, or two."""
        try:
            found = self._rereading.read()
            fixed = fixed_differences(Configuration, self._configuration, found)
            tls = None
            if self._tls is not None and found.tls is not None:
                tls = TlsParts.of(found.tls, self._now_s)
            enrolment = CurrentEnrolment.of(found.enrolment_key, self._now_s)
        except AskanceError as error:
            _LOG.error("the configuration was not read again", message=str(error))
            return
        if self._tls is not None and tls is not None:
            self._tls.replace(tls)
        self._enrolment.current = enrolment.current
        self._change(found)
        logging.getLogger().setLevel(found.log_level.upper())
        _LOG.info("the configuration was read again")
        if fixed:
            _LOG.warning("settings that wait for a restart", settings=fixed)


def process_path(configuration: Path) -> Path:
    """Return the path of the file, beside the configuration."""
    return configuration.with_suffix(".pid")


@contextmanager
def process_file(path: Path) -> Iterator[None]:
    """Name this process in a file and lock it, for the length of a block.

    Where the file cannot be written, or another process holds it (a replica with the same
    configuration), this process serves without: it is then reloaded by SIGHUP.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        _LOG.warning("no process file", path=str(path), message=error.strerror)
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
    except OSError as error:
        _LOG.warning("no process file", path=str(path), message=error.strerror)
    try:
        yield
    finally:
        os.close(descriptor)  # and with it the lock; the file stays, and names no running process


def reload_process(path: Path) -> int:
    """Send SIGHUP to the process that a file names, and return its number."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        number = int(path.read_text())
        try:
            os.kill(number, signal.SIGHUP)
        except OSError as error:
            raise NotOperable(f"process {number}: {error.strerror}") from None
        return number
    except OSError:
        pass
    raise NotOperable(
        f"{path}: expected a running aggregator, got none (start it, or send it SIGHUP yourself)"
    )
