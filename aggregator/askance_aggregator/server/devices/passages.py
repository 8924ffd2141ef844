"""The valve before the devices' listener, as the service starts, hears and commands it."""

from __future__ import annotations

import asyncio
import logging
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path

from askance_aggregator.server.devices.packet_filter import drop_from
from askance_aggregator.server.outer.addresses import IpAddress, Network, read_ip
from askance_aggregator.server.outer.child_process import process_environment
from askance_aggregator.server.outer.valve import (
    COMMAND,
    CREDIT,
    DEVICE,
    END,
    GATEWAY,
    GONE,
    OPENED,
    READY,
    REFUSE,
    REPORT,
    Passage,
    ValveSettings,
)
from askance_aggregator.store import CertificateHolder
from askance_client.errors import StoreError

_PROGRAM = "askance_aggregator.server.outer.valve"
_FLUSH_S = 0.002
_AGAIN_S = 0.1  # after the process has ended
_START_S = 60.0
_END_S = 10.0
_READ_BYTES = 1 << 16
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ListenerConnection:
    """Connection of a listener.

    Args:
      address: of the other end; an IPv4-mapped one as IPv4.
      number: tells it from all others, also from a later one of the same end.
      received: bytes that were passed on to the service.
    """

    address: IpAddress
    port: int
    number: int
    received: int


class Passages:
    """Connections through a valve, which is a process of its own, started again when it ends.

    `credit` and `prove` are for one event loop, in which they are sent; all else may be called from
    any thread.

    Args:
      listening: the socket at the devices' address.
      settings: of the valve.
    """

    def __init__(self, listening: socket.socket, settings: ValveSettings) -> None:
        self.port: int = listening.getsockname()[1]
        self._listening = listening
        self._settings = settings
        self._folder = tempfile.TemporaryDirectory(prefix="askance-")
        self._lock = threading.Lock()
        self._open: dict[int, ListenerConnection] = {}
        self._gone: list[ListenerConnection] = []  # since the last question
        self._latest = 0  # of the connections that the valve has told of
        self._holders: dict[CertificateHolder, int] = {}
        self._unsent = bytearray()
        self._due = False
        self._stopping = False

    @property
    def inner(self) -> Path:
        """Path of the Unix socket on which the service is to listen; no other user can reach it."""
        return Path(self._folder.name) / "devices"

    @property
    def pid(self) -> int:
        """The number of the process that runs now, or ran last."""
        return self._process.pid

    def start(self) -> None:
        """Start the process; connections wait until then."""
        self._process = self._started()
        self._thread = threading.Thread(target=self._run, name="askance-valve", daemon=True)
        self._thread.start()

    def refuse(self) -> None:
        """Accept no connection from now on; those that the service has taken go on until `stop`."""
        self._stopping = True
        with self._lock:
            self._unsent += COMMAND.pack(REFUSE, 0, 0)
            self._flush()
        self._listening.close()

    def stop(self) -> None:
        """End the process and all connections."""
        self._stopping = True
        with self._lock, suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        self._thread.join(_END_S)
        self._listening.close()
        self._folder.cleanup()

    def connections(self) -> list[ListenerConnection]:
        with self._lock:
            gone, self._gone = self._gone, []
            return [*self._open.values(), *gone]

    def end(self, numbers: Collection[int]) -> None:
        with self._lock:
            for number in numbers:
                self._unsent += COMMAND.pack(END, number, 0)
            self._flush()

    def ban(self, networks: Collection[Network]) -> None:
        drop_from(self._listening, networks)

    def meet(self, passage: Passage) -> None:
        """Know of a connection by its call, before the valve has told of it."""
        with self._lock:
            if passage.number > self._latest:
                self._add(passage.number, passage.address, passage.port)

    def credit(self, number: int, size: int) -> None:
        """Let a connection send so many bytes more."""
        self._tell(COMMAND.pack(CREDIT, number, size))

    def prove(self, number: int, holder: CertificateHolder) -> None:
        """Let a connection have the pace of its holder."""
        known = self._holders.setdefault(holder, len(self._holders))
        self._tell(COMMAND.pack(GATEWAY if holder.gateway else DEVICE, number, known))

    def _tell(self, command: bytes) -> None:
        with self._lock:
            self._unsent += command
            if self._due:
                return
            self._due = True
        asyncio.get_running_loop().call_later(_FLUSH_S, self._flush_due)

    def _flush_due(self) -> None:
        with self._lock:
            self._due = False
            self._flush()

    def _flush(self) -> None:
        """Send what was not sent yet, as far as there is room; the rest goes with what follows."""
        try:
            sent = self._control.send(self._unsent, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:  # the process has ended, and its socket may be closed
            self._unsent.clear()
        else:
            del self._unsent[:sent]

    def _started(self) -> subprocess.Popen[bytes]:
        own, other = socket.socketpair()
        descriptors = (self._listening.fileno(), other.fileno())
        with other:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", _PROGRAM, *map(str, descriptors)),
                    *(str(self.inner), self._settings.to_text()),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=descriptors,
                env=process_environment(),
            )
        own.settimeout(_START_S)
        if own.recv(len(READY)) != READY:
            raise StoreError("valve: expected it to start")
        own.settimeout(None)
        with self._lock:
            self._control = own
            self._unsent.clear()
            self._gone += self._open.values()
            self._open.clear()
        return process

    def _run(self) -> None:
        """Hear the process, and start it again whenever it ends."""
        while True:
            self._hear()
            self._control.close()
            try:
                code = self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                code = self._process.wait()
            if self._stopping:
                return
            _LOG.error("the valve has ended", extra={"code": code, "again_in_s": _AGAIN_S})
            while not self._stopping:
                time.sleep(_AGAIN_S)
                try:
                    self._process = self._started()
                    if self._stopping:  # what `stop` has closed was the one before it
                        self._control.close()
                    break
                # No memory or descriptor: tried again, unless what listens was closed.
                except (OSError, StoreError, ValueError) as error:
                    _LOG.error("the valve was not started", exc_info=error)

    def _hear(self) -> None:
        waiting = b""
        with suppress(OSError):
            while data := self._control.recv(_READ_BYTES):
                data = waiting + data
                whole = len(data) - len(data) % REPORT.size
                waiting = data[whole:]
                with self._lock:
                    for report in REPORT.iter_unpack(data[:whole]):
                        self._note(*report)

    def _note(self, kind: int, number: int, received: int, packed: bytes, port: int) -> None:
        if kind == OPENED:
            address = read_ip(str(ip_address(packed)))
            assert address is not None
            self._latest = number
            self._add(number, address, port)
            return
        self._open[number] = replace(self._open[number], received=received)
        if kind == GONE:
            self._gone.append(self._open.pop(number))

    def _add(self, number: int, address: IpAddress, port: int) -> None:
        self._open.setdefault(number, ListenerConnection(address, port, number, 0))
