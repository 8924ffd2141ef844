"""Checks of files, the disk and descriptors, and of the server's certificate."""

from __future__ import annotations

import ipaddress
import os
import shutil
import stat
import tempfile
from pathlib import Path

from cryptography import x509

from askance_aggregator.server.process.capacity import OTHER_DESCRIPTORS
from askance_aggregator.server.process.configuration import TlsFiles
from askance_aggregator.server.process.credentials import read_pair
from askance_aggregator.server.process.device_authority import read_device_authority
from askance_aggregator.server.process.doctor.checks import (
    CheckVerdict,
    Surroundings,
    check,
    failed,
    passed,
    warned,
)
from askance_aggregator.server.process.files import NotOperable, read_needed
from askance_aggregator.server.process.tokens import read_tokens
from askance_client.addresses import Address
from askance_client.durable_files import flush
from askance_client.service.clock import utc_text

_LEAST_FREE_BYTES = 64 << 20  # one study of 10^6 reports of 64 bytes
_LITTLE_FREE_BYTES = 1 << 30
_PROBE_BYTES = 64 << 10  # as `Store.check_writable` writes
_SLOW_FLUSH_S = 0.1  # a disk of its own takes 1 to 10 ms
_OTHERS = stat.S_IRWXO | stat.S_IWGRP | stat.S_IXGRP
_LEAST_CONNECTIONS = 64

_SOON_DAYS = 30  # as the aggregator warns at its start
_DAY_S = 86_400
_RENEW = "make a new one with the authority's key, or ask the one who signed it"


@check("secrets", "let only the aggregator's user read the file")
def secrets(surroundings: Surroundings) -> CheckVerdict:
    """Check the modes of all files that hold a secret."""
    paths = surroundings.configuration.secret_files
    shared: list[tuple[Path, int]] = []
    for path in paths:
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & _OTHERS:
            return failed(
                f"{path}: expected mode 0600, got {mode:04o}: other users may read or change it",
                f"chmod 600 {path}",
            )
        if mode & stat.S_IRGRP:
            shared.append((path, mode))
    if shared:
        path, mode = shared[0]
        return warned(
            f"{path}: expected mode 0600, got {mode:04o}: its group may read it",
            f"chmod 600 {path}, unless the group is the aggregator's alone",
        )
    return passed(f"{len(paths)} files, for their owner only")


@check("enrolment", "put back the enrolment key; without it tokens that were printed are worthless")
def enrolment(surroundings: Surroundings) -> CheckVerdict | None:
    """Check the key of enrolment tokens."""
    path = surroundings.configuration.enrolment_key
    if path is None:
        return None
    read_tokens(path, lambda: int(surroundings.now_s()))
    return passed(str(path))


@check("webhooks", "put the file back; the receiver has the same secret")
def webhooks(surroundings: Surroundings) -> CheckVerdict | None:
    """Check the files of webhooks; `aggregator webhook test` tries the receivers."""
    receivers = surroundings.configuration.webhooks
    if not receivers:
        return None
    for receiver in receivers:
        receiver.check()
    return passed(f"{', '.join(receiver.name for receiver in receivers)}: files are read")


@check("disk", "free space, or move the store to a larger disk while the aggregator is stopped")
def disk(surroundings: Surroundings) -> CheckVerdict | None:
    """Check the free space where the store is; the disk of a database server is its own matter."""
    facts = surroundings.store_if_known
    if facts is None or facts.folder is None:
        return None
    free = shutil.disk_usage(facts.folder).free
    text = f"{facts.folder}: {free / 2**20:,.1f} MiB free"
    if free < _LEAST_FREE_BYTES:
        return failed(f"{text}, expected {_LEAST_FREE_BYTES >> 20} MiB at least")
    if free < _LITTLE_FREE_BYTES:
        return warned(f"{text}, expected {_LITTLE_FREE_BYTES >> 20:,} MiB")
    return passed(text)


@check("fsync", "give the aggregator's user a folder on a local disk that it can write")
def fsync(surroundings: Surroundings) -> CheckVerdict | None:
    """Write a file beside the store, make it durable, and remove it."""
    facts = surroundings.store_if_known
    if facts is None or facts.folder is None:
        return None
    with tempfile.TemporaryFile(prefix=".askance-doctor-", dir=facts.folder) as file:
        file.write(os.urandom(_PROBE_BYTES))
        file.flush()
        start_s = surroundings.monotonic_s()
        flush(file.fileno())
        seconds = surroundings.monotonic_s() - start_s
    text = f"{facts.folder}: {_PROBE_BYTES >> 10} KiB durable in {seconds * 1000:.1f} ms"
    if seconds > _SLOW_FLUSH_S:
        return warned(text, "each commit waits for the disk: use a faster or a less busy one")
    return passed(text)


@check("descriptors", "raise the limit on open files: ulimit -Hn, or LimitNOFILE= of systemd")
def descriptors(surroundings: Surroundings) -> CheckVerdict:
    """Compare the limit on open files with the connections that are to be held."""
    connections = surroundings.configuration.limits.service.max_connections
    needed = connections + OTHER_DESCRIPTORS
    allowed = surroundings.descriptors
    if allowed is None or allowed >= needed:
        limit = "no limit" if allowed is None else f"{allowed:,}"
        return passed(f"{limit}, for {connections:,} connections")
    if allowed < OTHER_DESCRIPTORS + _LEAST_CONNECTIONS:
        return failed(f"expected {needed:,} for {connections:,} connections, got {allowed:,}")
    held = allowed - OTHER_DESCRIPTORS
    return warned(
        f"expected {needed:,} for {connections:,} connections, got {allowed:,}: {held:,} are held",
        "raise the limit on open files (LimitNOFILE= of systemd), or lower connections in [limits]",
    )


@check("certificate", "put a certificate (PEM) at [tls] certificate")
def certificate(surroundings: Surroundings) -> CheckVerdict:
    """Check that every certificate of the chain is valid now, and for a while."""
    configuration = surroundings.configuration
    if configuration.tls is None:
        if configuration.listen.is_loopback:
            return passed(f"none: plain text on {configuration.listen}")
        return warned(
            f"none: plain text on {configuration.listen}, which other machines reach",
            "set [tls], unless a proxy before it speaks TLS",
        )
    path, now_s = configuration.tls.certificate, int(surroundings.now_s())
    chain = _chain(configuration.tls)
    begin_s = max(int(one.not_valid_before_utc.timestamp()) for one in chain)
    end_s = min(int(one.not_valid_after_utc.timestamp()) for one in chain)
    if now_s < begin_s:
        return failed(f"{path}: not valid before {utc_text(begin_s)}", "set the machine's clock")
    if now_s >= end_s:
        return failed(f"{path}: ended on {utc_text(end_s)}", _RENEW)
    if end_s - now_s < _SOON_DAYS * _DAY_S:
        return warned(f"{path}: ends on {utc_text(end_s)}", _RENEW)
    return passed(f"{path}, until {utc_text(end_s)}")


@check("key", "put the key that the certificate was made for at [tls] key")
def key(surroundings: Surroundings) -> CheckVerdict | None:
    """Check that the key is the certificate's."""
    tls = surroundings.configuration.tls
    if tls is None:
        return None
    read_pair(tls)
    return passed(f"{tls.key} fits the certificate")


@check("devices' authority", "put its certificate and key at authority and authority_key")
def devices_authority(surroundings: Surroundings) -> CheckVerdict | None:
    """Check the certificate and key that sign devices' certificates."""
    tls = surroundings.configuration.tls
    if tls is None:
        return None
    read_device_authority(tls.devices, lambda: int(surroundings.now_s()))
    path = tls.devices.authority
    signing = x509.load_pem_x509_certificates(read_needed(path, "devices' authority"))[0]
    end_s = int(signing.not_valid_after_utc.timestamp())
    if end_s - surroundings.now_s() < tls.devices.life_s:
        return failed(
            f"{path}: ends on {utc_text(end_s)}, before the certificates that it signs",
            "make another one: askance aggregator certificates rotate",
        )
    return passed(f"{path}, until {utc_text(end_s)}")


@check("names", "make a certificate for the names by which devices call: init --host NAME")
def names(surroundings: Surroundings) -> CheckVerdict | None:
    """Check that the certificate covers the host that is listened on, and the advertised one."""
    configuration = surroundings.configuration
    if configuration.tls is None:
        return None
    covered = _names(_chain(configuration.tls)[0])
    outside = [name for name in covered if not Address(name, 0).is_loopback]
    host, shown = configuration.listen.host, ", ".join(covered) or "none"
    told = configuration.tls.devices.advertised
    if told is not None and not any(_covers(name, told.host) for name in covered):
        return failed(f"expected a certificate for {told.host} (advertised), got one for {shown}")
    if configuration.listen.is_wildcard:
        if outside:
            return passed(f"{shown}; devices call by one of these")
        return warned(f"expected a name that other machines call, got {shown}")
    if any(_covers(name, host) for name in covered):
        return passed(f"{host} is covered: {shown}")
    if outside:
        return warned(
            f"{host} is not covered: {shown}",
            "nothing, if devices call by one of these names through a proxy",
        )
    return failed(f"expected a certificate for {host}, got one for {shown}")


def _chain(tls: TlsFiles) -> list[x509.Certificate]:
    data = read_needed(tls.certificate, "certificate")
    try:
        return x509.load_pem_x509_certificates(data)
    except ValueError:
        raise NotOperable(f"certificate {tls.certificate}: expected PEM, got other bytes") from None


def _names(leaf: x509.Certificate) -> list[str]:
    try:
        found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    addresses = found.get_values_for_type(x509.IPAddress)
    return [*found.get_values_for_type(x509.DNSName), *(str(address) for address in addresses)]


def _covers(name: str, host: str) -> bool:
    """Return whether a certificate's name stands for a host; "*" is one label (RFC 6125)."""
    try:
        return ipaddress.ip_address(name) == ipaddress.ip_address(host)
    except ValueError:
        pass
    name, host = name.lower(), host.lower().rstrip(".")
    return name == host or (name.startswith("*.") and name[2:] == host.partition(".")[2])
