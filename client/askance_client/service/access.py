"""Access of a device to its aggregator: the address, and what proves either side."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from grpc import aio

from askance_client.addresses import Address
from askance_client.service.authority import read_authority
from askance_client.service.certificates import CertificateFile
from askance_client.service.channels import open_channel
from askance_client.service.clock import system_now_s
from askance_client.service.open_side import OpenSide


class AggregatorAccess:
    """Address of an aggregator, and what it and the device show each other.

    Args:
      address: of the open side; devices with a certificate are told another port.
      ca: the certificates (PEM file) that the aggregator's must be signed by; None: plain text.
      certificate: path of the device's own certificate, for TLS.
      longest_wait_ms: between two tries to connect.
    """

    def __init__(
        self, address: Address, ca: Path | None, certificate: Path, longest_wait_ms: int
    ) -> None:
        self._authority = None if ca is None else partial(read_authority, ca)
        self._address = str(address)
        self._longest_wait_ms = longest_wait_ms
        self.open_side = OpenSide(self._address, self._authority)
        self.certificate = (
            None if ca is None else CertificateFile(certificate, system_now_s, self.open_side)
        )

    def channel(self) -> aio.Channel:
        """Open a channel (see `open_channel`)."""
        held, wait_ms = self.certificate, self._longest_wait_ms
        own = (lambda: None) if held is None else held.read
        return open_channel(self._address, self._authority, longest_wait_ms=wait_ms, own=own)
