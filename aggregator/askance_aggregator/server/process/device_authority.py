"""Authority that signs certificates of devices and gateways, with a key that is at hand.

It is not the authority of the server's certificate, whose key can be kept elsewhere: a device's
certificate proves nothing to another device, and nothing about the server.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from askance_aggregator.server.devices import BadSigningRequest, IssuedCertificate
from askance_aggregator.server.process.certificates import read_certificates, read_curve_key, usage
from askance_aggregator.server.process.configuration import DeviceTls
from askance_aggregator.server.process.files import NotOperable
from askance_aggregator.store import CertificateHolder

_SKEW = timedelta(hours=1)  # a device's clock may be behind
OVERLAP = 10  # a renewed certificate goes on for this part of a life: calls under way end by then


class DeviceAuthority:
    """Issuer of devices' certificates (see `devices.CertificateIssuer`).

    Args:
      certificates: PEM; the first is of the key. Those after it that are not their own issuers are
        sent along as the chain.
      life_s: of a certificate, in seconds.
    """

    def __init__(
        self,
        certificates: list[x509.Certificate],
        key: ec.EllipticCurvePrivateKey,
        *,
        life_s: int,
        now_s: Callable[[], int],
    ) -> None:
        self._certificate = certificates[0]
        self._between = b"".join(
            one.public_bytes(Encoding.PEM) for one in certificates if one.issuer != one.subject
        )
        self._key = key
        self._life_s = life_s
        self._now_s = now_s

    def issue(self, signing_request: bytes, holder: CertificateHolder) -> IssuedCertificate:
        """Sign a certificate that names the holder's number and nothing else of it."""
        public, now_s = _requested_key(signing_request), self._now_s()
        now = datetime.fromtimestamp(now_s, UTC)
        end = min(now + timedelta(seconds=self._life_s), self._certificate.not_valid_after_utc)
        name = f"gateway {holder.gateway}" if holder.gateway else f"device {holder.ordinal}"
        issuer_key = self._certificate.public_key()
        assert isinstance(issuer_key, ec.EllipticCurvePublicKey)  # as of `read_device_authority`
        signed = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(self._certificate.subject)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _SKEW)
            .not_valid_after(end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )
        return IssuedCertificate(
            hashlib.sha256(signed.public_bytes(Encoding.DER)).digest(),
            signed.public_bytes(Encoding.PEM) + self._between,
            int(end.timestamp()),
            now_s + self._life_s // OVERLAP,
        )


def read_device_authority(settings: DeviceTls, now_s: Callable[[], int]) -> DeviceAuthority:
    """Read the devices' authority from the operator's files."""
    certificates = read_certificates(settings.authority, "devices' authority")
    what = "key of the devices' authority"
    key = read_curve_key(settings.key, what)
    if key.public_key() != certificates[0].public_key():
        raise NotOperable(
            f"{what} {settings.key}: expected the key of the first certificate, got one that does"
            " not fit"
        )
    return DeviceAuthority(certificates, key, life_s=settings.life_s, now_s=now_s)


def _requested_key(signing_request: bytes) -> ec.EllipticCurvePublicKey:
    try:
        request = x509.load_der_x509_csr(signing_request)
        public, signed = request.public_key(), request.is_signature_valid
    except (ValueError, UnsupportedAlgorithm):
        raise BadSigningRequest(
            "certificate: expected a signing request, got other bytes"
        ) from None
    if not signed:
        raise BadSigningRequest(
            "certificate: expected a request signed by its key, got a wrong signature"
        )
    if not isinstance(public, ec.EllipticCurvePublicKey) or public.curve.name != "secp256r1":
        kind = public.curve.name if isinstance(public, ec.EllipticCurvePublicKey) else "no curve"
        raise BadSigningRequest(f"certificate: expected a key on P-256, got one on {kind}")
    return public
