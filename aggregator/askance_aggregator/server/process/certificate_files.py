"""Certificates in an operator's files: listed, renewed, and rotated with an overlap.

The first certificate of the devices' authority signs new ones; all of the file are accepted. So a
new authority is put first, devices renew onto it within the life of a certificate, and then the
ones after it are retired. A process that serves reads the files again at `reload`.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from askance_aggregator.server.process.certificates import (
    devices_authority,
    host_names,
    read_certificates,
    read_curve_key,
    renewed,
)
from askance_aggregator.server.process.configuration import DeviceTls, TlsFiles
from askance_aggregator.server.process.device_authority import OVERLAP
from askance_aggregator.server.process.files import NotOperable, SecretSource
from askance_client.durable_files import sync, write_new
from askance_client.errors import InvalidParameter

SERVER, SERVERS_AUTHORITY = "server", "server's authority"
SIGNING, ACCEPTED = "devices' authority, signs", "devices' authority, accepted"
_BEGINS_BEFORE = timedelta(hours=1)  # of a certificate's making, for clocks that are behind


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """A certificate in one of the files.

    Args:
      role: what it is for: `SERVER`, `SERVERS_AUTHORITY`, `SIGNING` or `ACCEPTED`.
      hosts: that it is for; none for an authority's.
      ends_unix_s: its end, in Unix seconds.
      fingerprint: SHA-256 of the certificate (DER), in hexadecimal.
    """

    role: str
    file: Path
    subject: str
    hosts: tuple[str, ...]
    ends_unix_s: int
    fingerprint: str

    def to_json(self) -> dict[str, Any]:
        """Return one JSON object."""
        return {
            "role": self.role,
            "file": str(self.file),
            "subject": self.subject,
            "hosts": list(self.hosts),
            "ends_unix_s": self.ends_unix_s,
            "fingerprint": self.fingerprint,
        }


def list_certificates(tls: TlsFiles) -> list[CertificateFacts]:
    """Read the certificates of a configuration."""
    server = read_certificates(tls.certificate, "certificate")[0]
    found = [_facts(SERVER, tls.certificate, server)]
    if tls.authority is not None:
        ours = read_certificates(tls.authority, "authority")
        found += [_facts(SERVERS_AUTHORITY, tls.authority, one) for one in ours]
    path = tls.devices.authority
    for place, one in enumerate(read_certificates(path, "devices' authority")):
        found.append(_facts(ACCEPTED if place else SIGNING, path, one))
    return found


def renew_server(tls: TlsFiles, authority: Path, key: Path, now_s: int) -> CertificateFacts:
    """Sign the server's certificate anew, with its names and its key, and replace the file.

    Args:
      tls: the configured files.
      authority: certificates of the authority (PEM).
      key: the authority's (PEM).
      now_s: the time, in Unix seconds.

    Raises:
      NotOperable: a file cannot be read or written, or the authority did not sign the present
        certificate; nothing was changed.
    """
    server, *between = read_certificates(tls.certificate, "certificate")
    private = read_curve_key(key, "authority's key")
    signers = [one for one in read_certificates(authority, "authority") if _fits(one, private)]
    if not signers:
        raise NotOperable(
            f"authority's key {key}: expected the key of a certificate in {authority}, got one that"
            " does not fit"
        )
    try:
        server.verify_directly_issued_by(signers[0])
    except (ValueError, TypeError, InvalidSignature):
        raise NotOperable(
            f"certificate {tls.certificate}: expected one that the authority in {authority} has"
            f" signed, got one of {server.issuer.rfc4514_string()!r} (renew it where it is from)"
        ) from None
    try:
        new = renewed(server, signers[0], private, now_s)
    except InvalidParameter as error:
        raise NotOperable(f"certificate {tls.certificate}: {error}") from None
    _replace(tls.certificate, _pem(new, *between))
    return _facts(SERVER, tls.certificate, new)


def rotate_devices(devices: DeviceTls, now_s: int) -> CertificateFacts:
    """Make a new devices' authority, which signs from now on; the present ones stay accepted.

    Called again after it broke off between the two files, it completes the first call.

    Raises:
      NotOperable: the key is in no file, a file cannot be read or written, the authority is not its
        own issuer, or an older one is accepted still; nothing was changed.
    """
    path, key = devices.authority.resolve(), _key_file(devices.key).resolve()
    if path == key:
        raise NotOperable(f"devices' authority {path}: expected its key in a file of its own")
    begun = path.with_name(f"{path.name}.new")
    there = _begun(begun, devices, now_s)
    if there and _fits(there[0], read_curve_key(key, "devices' authority's key")):
        _move(begun, path)
        return _facts(SIGNING, path, there[0])
    present = read_certificates(path, "devices' authority")
    if len(present) > 1:
        raise NotOperable(
            f"devices' authority {path}: expected one certificate, got {len(present)}"
            " (askance aggregator certificates retire drops those that were rotated)"
        )
    if present[0].issuer != present[0].subject:
        raise NotOperable(
            f"devices' authority {path}: expected one that is its own issuer, got one of"
            f" {present[0].issuer.rfc4514_string()!r} (put its successor first in the file)"
        )
    made = devices_authority(now_s)
    new = x509.load_pem_x509_certificate(made.certificate)
    _write_beside(begun, made.certificate + _pem(*present), path)
    _replace(key, made.key)
    _move(begun, path)
    return _facts(SIGNING, path, new)


def _begun(begun: Path, devices: DeviceTls, now_s: int) -> list[x509.Certificate]:
    """Return what a rotation that broke off has left, if the overlap would still be a whole one."""
    try:
        there = read_certificates(begun, "devices' authority") if begun.exists() else []
    except NotOperable:
        return []  # half a file
    if not there:
        return []
    age = datetime.fromtimestamp(now_s, UTC) - there[0].not_valid_before_utc - _BEGINS_BEFORE
    return there if age.total_seconds() < devices.life_s // OVERLAP else []


def retire_devices(devices: DeviceTls, now_s: int) -> list[CertificateFacts]:
    """Stop accepting the devices' authorities that were rotated; their certificates have ended.

    The overlap lasts for the life of a certificate, and a tenth of it in which every replica has to
    be reloaded after the rotation.

    Returns:
      Those that were dropped.

    Raises:
      NotOperable: certificates of them may be valid still, a file cannot be read or written, there
        is none to drop, or the first is not its own issuer; nothing was changed.
    """
    path = devices.authority
    first, *dropped = read_certificates(path, "devices' authority")
    if not dropped:
        raise NotOperable(f"devices' authority {path}: expected one that was rotated, got none")
    if first.issuer != first.subject:
        raise NotOperable(
            f"devices' authority {path}: expected one that is its own issuer, got one of"
            f" {first.issuer.rfc4514_string()!r} (take the older ones out of the file by hand)"
        )
    lasts_s = devices.life_s + devices.life_s // OVERLAP
    over = first.not_valid_before_utc + _BEGINS_BEFORE + timedelta(seconds=lasts_s)
    if datetime.fromtimestamp(now_s, UTC) < over:
        raise NotOperable(
            f"devices' authority {path}: expected an overlap that is over, got one that lasts until"
            f" {over:%Y-%m-%dT%H:%M:%SZ} (life_s, {devices.life_s} s, and a tenth; devices renew by"
            " themselves until then)"
        )
    _replace(path, _pem(first))
    return [_facts(ACCEPTED, path, one) for one in dropped]


def _facts(role: str, path: Path, certificate: x509.Certificate) -> CertificateFacts:
    return CertificateFacts(
        role,
        path,
        certificate.subject.rfc4514_string(),
        tuple(host_names(certificate)),
        int(certificate.not_valid_after_utc.timestamp()),
        hashlib.sha256(certificate.public_bytes(Encoding.DER)).hexdigest(),
    )


def _key_file(source: SecretSource) -> Path:
    if not isinstance(source, Path):
        raise NotOperable(
            f"devices' authority's key {source}: expected a file (authority_key), got a variable of"
            " the environment: make the new authority where the variable is from"
        )
    return source


def _fits(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> bool:
    return certificate.public_key() == key.public_key()


def _pem(*certificates: x509.Certificate) -> bytes:
    return b"".join(one.public_bytes(Encoding.PEM) for one in certificates)


def _replace(path: Path, data: bytes) -> None:
    """Replace a file as a whole, durably; its owner and its mode stay."""
    path = path.resolve()  # a link stays one
    beside = path.with_name(f"{path.name}.new")
    _write_beside(beside, data, path)
    _move(beside, path)


def _write_beside(beside: Path, data: bytes, path: Path) -> None:
    """Write a file with the owner and the mode of the one that it is to replace."""
    try:
        there = path.stat()
        beside.unlink(missing_ok=True)  # left by a command that broke off
        write_new(beside, data, mode=stat.S_IMODE(there.st_mode))
        if (there.st_uid, there.st_gid) != (os.geteuid(), os.getegid()):
            os.chown(beside, there.st_uid, there.st_gid)
    except OSError as error:
        raise NotOperable(f"{beside}: cannot be written: {error.strerror}") from None


def _move(beside: Path, path: Path) -> None:
    try:
        os.replace(beside, path)
        sync(path.parent)
    except OSError as error:
        raise NotOperable(f"{path}: cannot be replaced: {error.strerror}") from None
