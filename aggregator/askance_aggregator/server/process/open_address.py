"""The public address of an aggregator with TLS, and the outer process that serves it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from askance_aggregator.server.devices import CertifiedListener
from askance_aggregator.server.outer.settings import OuterSettings
from askance_aggregator.server.outer.supervisor import InnerSocket, OuterProcess, listen_at
from askance_aggregator.server.process.configuration import Configuration, DeviceTls
from askance_aggregator.server.process.reloading import TlsParts


class OpenAddress:
    """The outer process at the public address, and the socket by which it is passed on.

    Args:
      tls: its parts; another certificate is read from them at a reload.

    Raises:
      StoreError: the address is in use, or not this machine's.
    """

    def __init__(self, configuration: Configuration, tls: TlsParts, held: ExitStack) -> None:
        self._configuration = configuration
        self._tls = tls
        self._listening = held.enter_context(listen_at(configuration.listen))
        self._inner = held.enter_context(InnerSocket())
        # Ended after the service is, whose last answers it passes on.
        self._held = held.enter_context(ExitStack())
        self._process: OuterProcess | None = None

    @property
    def address(self) -> str:
        """The public address."""
        return str(self._configuration.listen.at_port(self._listening.getsockname()[1]))

    def certified(self, now_s: Callable[[], int]) -> CertifiedListener:
        """Return the devices' listener."""
        certified, devices = self._tls.certified, self._devices
        return CertifiedListener(
            certified.credentials(),
            self._tls.issuer,
            now_s,
            self._inner,
            devices.needed,
            devices.public_port,
        )

    def start(self) -> None:
        """Start the process."""
        settings = self._settings(self._configuration)
        process = OuterProcess(self._listening, self._inner, settings)
        self._process = self._held.enter_context(process)

    def change(self, configuration: Configuration) -> None:
        """Show the certificate that has been read again, and keep other limits."""
        if self._process is not None:
            self._process.change(self._settings(configuration))

    @property
    def _devices(self) -> DeviceTls:
        assert self._configuration.tls is not None  # as of `serve`
        return self._configuration.tls.devices

    def _settings(self, configuration: Configuration) -> OuterSettings:
        limits, pair = configuration.limits.service, self._tls.certified.pair
        return OuterSettings(
            certificate=pair.chain.decode("ascii", "replace"),
            key=pair.key.decode("ascii", "replace"),
            trusted=tuple(sorted(str(network) for network in limits.unproven.trusted)),
            devices=not self._devices.needed,
            handshake_s=limits.handshake_s,
            idle_s=limits.idle_s,
            age_s=limits.age_s,
        )
