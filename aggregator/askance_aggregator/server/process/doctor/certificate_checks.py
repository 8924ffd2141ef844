"""Checks of the server's certificate: its dates, its key and the names that it covers."""

from __future__ import annotations

import ipaddress

from cryptography import x509

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
from askance_client.addresses import Address
from askance_client.service.clock import utc_text

_SOON_DAYS = 30  # as the aggregator warns at its start
_DAY_S = 86_400
_RENEW = "make a new one with the authority's key, or ask the one who signed it"


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
    """Check that the certificate covers the host that is listened on."""
    configuration = surroundings.configuration
    if configuration.tls is None:
        return None
    covered = _names(_chain(configuration.tls)[0])
    outside = [name for name in covered if not Address(name, 0).is_loopback]
    host, shown = configuration.listen.host, ", ".join(covered) or "none"
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
