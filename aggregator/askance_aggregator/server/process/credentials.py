"""The server's half of TLS, from an operator's files."""

from __future__ import annotations

import grpc
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from askance_aggregator.server.process.configuration import TlsFiles
from askance_aggregator.server.process.files import NotOperable, read_needed


def server_credentials(files: TlsFiles) -> grpc.ServerCredentials:
    """The credentials in a certificate and its key.

    gRPC would start with a pair that does not fit and refuse every caller; here it is an error.

    Raises:
      NotOperable: a file cannot be read, or is not what it should be; the two do not fit.
    """
    chain, key = read_needed(files.certificate, "certificate"), read_needed(files.key, "key")
    try:
        certificate = x509.load_pem_x509_certificate(chain)
    except ValueError:
        raise NotOperable(
            f"certificate {files.certificate}: expected PEM, got other bytes"
        ) from None
    try:
        private = load_pem_private_key(key, None)
    except (ValueError, TypeError):
        raise NotOperable(
            f"key {files.key}: expected an open PEM key, got other bytes or a passphrase"
        ) from None
    if private.public_key() != certificate.public_key():
        raise NotOperable(f"key {files.key}: expected the certificate's key, got another")
    return grpc.ssl_server_credentials([(key, chain)])
