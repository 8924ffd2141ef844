"""An authority of one's own, and the certificate of a server that devices pin it for.

Keys are ECDSA on P-256, which every TLS library takes. The authority signs servers and nothing
else; its key is needed again only when a server's certificate is renewed.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from askance_aggregator.server.process.files import NotOperable, SecretSource, read_needed
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text

_LOCAL = ("localhost", "127.0.0.1", "::1")
_AUTHORITY_LIFE = timedelta(days=3_653)
_SERVER_LIFE = timedelta(days=825)  # the longest that all common libraries take
_SKEW = timedelta(hours=1)  # a device's clock may be behind
_MAX_COMMON_NAME = 64


@dataclass(frozen=True, slots=True)
class Certified:
    """A certificate and its private key, both as PEM."""

    certificate: bytes
    key: bytes


def self_made(hosts: Sequence[str], now_s: int) -> tuple[Certified, Certified]:
    """A new authority and a server's certificate signed by it."""
    names = [_general_name(host) for host in dict.fromkeys([*hosts, *_LOCAL])]
    begin = datetime.fromtimestamp(now_s, UTC) - _SKEW
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _authority(authority_key, begin)
    server_key = ec.generate_private_key(ec.SECP256R1())
    common = next((host for host in hosts if len(host) <= _MAX_COMMON_NAME), _LOCAL[0])
    server = _server(
        _builder(_name(common), server_key.public_key(), begin, begin + _SERVER_LIFE),
        x509.SubjectAlternativeName(names),
        authority,
        authority_key,
    )
    return _pem(authority, authority_key), _pem(server, server_key)


def renewed(
    certificate: x509.Certificate,
    authority: x509.Certificate,
    key: ec.EllipticCurvePrivateKey,
    now_s: int,
) -> x509.Certificate:
    """Return a server's certificate with the same names and key, and a new end."""
    public, names = certificate.public_key(), _host_names(certificate)
    if not isinstance(public, ec.EllipticCurvePublicKey) or names is None:
        raise InvalidParameter(
            "expected a server's certificate with names and a key on an elliptic curve, got that of"
            f" {value_text(certificate.subject.rfc4514_string())}"
        )
    begin = datetime.fromtimestamp(now_s, UTC) - _SKEW
    last = authority.not_valid_after_utc
    if last <= max(certificate.not_valid_after_utc, begin + _SKEW):
        raise InvalidParameter(
            "expected an authority that outlives the certificate, got one that ends on"
            f" {last:%Y-%m-%d} (make a new one: docs/operating.md)"
        )
    end = min(begin + _SERVER_LIFE, last)
    return _server(_builder(certificate.subject, public, begin, end), names, authority, key)


def devices_authority(now_s: int) -> Certified:
    """A new authority of devices' certificates, which begins at `now_s` (Unix seconds)."""
    key = ec.generate_private_key(ec.SECP256R1())
    begin = datetime.fromtimestamp(now_s, UTC) - _SKEW
    # Its serial number tells it from one that was made before, and will be trusted for a while.
    name = f"askance devices' authority {x509.random_serial_number():x}"
    return _pem(_authority(key, begin, name[:_MAX_COMMON_NAME]), key)


def parse_certificates(pem: bytes, place: str) -> list[x509.Certificate]:
    """Parse certificates; NotOperable names the place where they stand."""
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise NotOperable(f"{place}: expected PEM, got other bytes") from None


def read_certificates(path: Path, what: str) -> list[x509.Certificate]:
    """Read a file of certificates."""
    return parse_certificates(read_needed(path, what), f"{what} {path}")


def parse_key(pem: bytes, place: str) -> PrivateKeyTypes:
    """Parse a private key; NotOperable names the place where it stands."""
    try:
        return load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise NotOperable(
            f"{place}: expected an open PEM key, got other bytes or a passphrase"
        ) from None


def read_curve_key(source: SecretSource, what: str) -> ec.EllipticCurvePrivateKey:
    """Read the private key of an authority."""
    found = parse_key(read_needed(source, what), f"{what} {source}")
    if not isinstance(found, ec.EllipticCurvePrivateKey):
        raise NotOperable(
            f"{what} {source}: expected a key on an elliptic curve, got {type(found).__name__}"
        )
    return found


def host_names(certificate: x509.Certificate) -> list[str]:
    """Return the names and addresses that a certificate is for; none for an authority's."""
    names = _host_names(certificate)
    if names is None:
        return []
    addresses = names.get_values_for_type(x509.IPAddress)
    return [*names.get_values_for_type(x509.DNSName), *map(str, addresses)]


def first_name(certificate: bytes) -> str:
    """A name or address that a server with this certificate (PEM) answers to."""
    hosts: list[str] = []
    with suppress(ValueError):
        hosts = host_names(x509.load_pem_x509_certificate(certificate))
    if not hosts:
        raise InvalidParameter("expected a certificate with a host's name, got none")
    return hosts[0]


def expiry(certificate: bytes) -> int:
    """Return the end of a certificate (PEM), in whole seconds since 1970, UTC."""
    return int(x509.load_pem_x509_certificate(certificate).not_valid_after_utc.timestamp())


def _authority(
    key: ec.EllipticCurvePrivateKey, begin: datetime, name: str = "askance aggregator's authority"
) -> x509.Certificate:
    builder = _builder(_name(name), key.public_key(), begin, begin + _AUTHORITY_LIFE)
    return (
        builder.issuer_name(_name(name))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage(signs_certificates=True), critical=True)
        .add_extension(_authority_identifier(key), critical=False)
        .sign(key, hashes.SHA256())
    )


def _server(
    builder: x509.CertificateBuilder,
    names: x509.SubjectAlternativeName,
    authority: x509.Certificate,
    key: ec.EllipticCurvePrivateKey,
) -> x509.Certificate:
    """Sign the certificate of a server."""
    return (
        builder.issuer_name(authority.subject)
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(_authority_identifier(key), critical=False)
        .sign(key, hashes.SHA256())
    )


def _host_names(certificate: x509.Certificate) -> x509.SubjectAlternativeName | None:
    try:
        return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None


def _builder(
    subject: x509.Name, key: ec.EllipticCurvePublicKey, begin: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _authority_identifier(key: ec.EllipticCurvePrivateKey) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())


def usage(*, signs_certificates: bool) -> x509.KeyUsage:
    """Return the key's usage: to sign certificates, or to prove a party of TLS."""
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    labels = host.rstrip(".").split(".")
    if not all(_is_label(label) for label in labels) or len(host) > 253:
        raise InvalidParameter(f"host: expected a name or an address, found {host!r}")
    return x509.DNSName(host)


def _is_label(label: str) -> bool:
    letters = label.replace("-", "").replace("_", "")
    return letters.isascii() and letters.isalnum() and len(label) <= 63 and label[0] != "-"


def _pem(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Certified:
    return Certified(
        certificate.public_bytes(Encoding.PEM),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )
