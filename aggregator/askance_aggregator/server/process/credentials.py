"""The server's half of TLS, from an operator's files, which may be replaced while it serves."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import grpc

from askance_aggregator.server.process.certificates import expiry, parse_certificates, parse_key
from askance_aggregator.server.process.configuration import TlsFiles
from askance_aggregator.server.process.files import NotOperable, read_needed


@dataclass(frozen=True, slots=True)
class CertificatePair:
    """A server's certificate, with those between it and the root, and its key (PEM)."""

    chain: bytes
    key: bytes = field(repr=False)


class ListenerTls:
    """TLS of the devices' listener: what a handshake that begins now shows and trusts.

    Args:
      callers: PEM: what a caller's certificate must be signed by.
    """

    def __init__(self, pair: CertificatePair, callers: bytes) -> None:
        self._lock = threading.Lock()
        self.pair = pair
        self._current = grpc.ssl_server_certificate_configuration([(pair.key, pair.chain)], callers)
        self._changed = False

    @property
    def ends_unix_s(self) -> int:
        """End of the certificate that is shown, in Unix seconds."""
        return expiry(self.pair.chain)

    def credentials(self) -> grpc.ServerCredentials:
        """Return the credentials of a port; every later handshake asks for what is current."""
        return grpc.dynamic_ssl_server_credentials(
            self._current,
            self._fetch,  # type: ignore[arg-type]  # gRPC's documentation has None for no change
            True,
        )

    def use(self, other: ListenerTls) -> None:
        """Show and trust from the next handshake on what another was made with.

        Connections that stand are not ended.
        """
        with self._lock:
            self._current, self._changed = other._current, True
            self.pair = other.pair

    def _fetch(self) -> grpc.ServerCertificateConfiguration | None:
        """Return the current configuration, None if it is the last one; in a thread of gRPC."""
        with self._lock:
            changed, self._changed = self._changed, False
            return self._current if changed else None


def read_pair(files: TlsFiles) -> CertificatePair:
    """Read a certificate and its key.

    gRPC would start with a pair that does not fit and refuse every caller; here it is an error.
    """
    chain, key = read_needed(files.certificate, "certificate"), read_needed(files.key, "key")
    certificate = parse_certificates(chain, f"certificate {files.certificate}")[0]
    private = parse_key(key, f"key {files.key}")
    if private.public_key() != certificate.public_key():
        raise NotOperable(f"key {files.key}: expected the certificate's key, got another")
    return CertificatePair(chain, key)
