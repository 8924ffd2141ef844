"""`askance aggregator certificates`: those of the server and of the devices' authority."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from askance.cli.aggregator import common
from askance.cli.output import Failure, print_answer

if TYPE_CHECKING:
    from askance_aggregator.server.process.certificate_files import CertificateFacts
    from askance_aggregator.server.process.configuration import Configuration, DeviceTls, TlsFiles

_SUMMARY = "show, renew and rotate certificates"
_DESCRIPTION = (
    "Certificates in the files that the configuration names. What a command changes is in force"
    " after askance aggregator reload, at every replica; open streams go on."
)
_SHOWS = "Print the certificates of the server and of the authorities, with their ends."
_RENEWS = (
    "Sign the server's certificate anew, with the same names and the same key, for 825 days or as"
    " long as the authority itself is valid. Devices need no change. Needs the authority's key."
)
_ROTATES = (
    "Make a new devices' authority, which signs from the reload on. The previous one is still"
    " accepted: devices renew onto the new one by themselves within life_s. Then run retire. Reload"
    " every replica soon, within a tenth of life_s."
)
_RETIRES = (
    "Stop accepting devices' authorities that were rotated. Refused while devices may have valid"
    " certificates of them."
)


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands."""
    certificates: argparse.ArgumentParser = commands.add_parser(
        "certificates", help=_SUMMARY, description=_DESCRIPTION
    )
    below = certificates.add_subparsers(
        dest="certificates_command", metavar="COMMAND", required=True
    )
    configured, with_store = common.add_configuration, common.add_configured_store
    what = "print certificates and their ends"
    common.add_command(below, "show", _show, what, _SHOWS, configured)
    what = "renew the server's certificate"
    renew = common.add_command(below, "renew", _renew, what, _RENEWS, configured)
    renew.add_argument(
        "--authority",
        type=Path,
        metavar="FILE.pem",
        help="the server's authority; default: tls.authority, else ca.pem beside the certificate",
    )
    renew.add_argument(
        "--authority-key",
        type=Path,
        metavar="FILE.key",
        help="its private key; default: ca.key beside the certificate",
    )
    common.add_store(renew)
    what = "begin a new devices' authority"
    common.add_command(below, "rotate", _rotate, what, _ROTATES, with_store)
    what = "drop the rotated devices' authority"
    common.add_command(below, "retire", _retire, what, _RETIRES, with_store)


def _show(arguments: argparse.Namespace) -> int:
    from askance_aggregator.server.process.certificate_files import list_certificates

    found = list_certificates(_tls_of(common.configuration_of(arguments), arguments))
    content = {"certificates": [one.to_json() for one in found]}
    return print_answer(arguments, content, *_certificate_lines(found))


def _renew(arguments: argparse.Namespace) -> int:
    from askance_aggregator.clock import system_now_s
    from askance_aggregator.server.process.certificate_files import renew_server

    configuration = common.configuration_of(arguments)
    tls = _tls_of(configuration, arguments)
    folder = tls.certificate.parent
    authority: Path = arguments.authority or tls.authority or folder / "ca.pem"
    key: Path = arguments.authority_key or folder / "ca.key"
    with common.recorded_at(configuration.store, "certificates renew", str(tls.certificate)):
        found = renew_server(tls, authority, key, system_now_s())
    return _changed("renewed", [found], arguments)


def _rotate(arguments: argparse.Namespace) -> int:
    from askance_aggregator.clock import system_now_s
    from askance_aggregator.server.process.certificate_files import rotate_devices

    configuration = common.configuration_of(arguments)
    devices = _devices_of(configuration, arguments)
    with common.recorded_at(configuration.store, "certificates rotate", str(devices.authority)):
        found = rotate_devices(devices, system_now_s())
    return _changed("begun", [found], arguments)


def _retire(arguments: argparse.Namespace) -> int:
    from askance_aggregator.clock import system_now_s
    from askance_aggregator.server.process.certificate_files import retire_devices

    configuration = common.configuration_of(arguments)
    devices = _devices_of(configuration, arguments)
    with common.recorded_at(configuration.store, "certificates retire", str(devices.authority)):
        found = retire_devices(devices, system_now_s())
    return _changed("retired", found, arguments)


def _changed(what: str, found: Sequence[CertificateFacts], arguments: argparse.Namespace) -> int:
    """Print what a command changed, and what brings it in force."""
    return print_answer(
        arguments,
        {what: [one.to_json() for one in found]},
        f"{what}:",
        *_certificate_lines(found),
        f"in force after: askance aggregator reload --config {arguments.config}",
    )


def _certificate_lines(found: Sequence[CertificateFacts]) -> list[str]:
    from askance_client.service.clock import utc_text

    heads = ("role", "subject", "hosts", "ends", "sha-256", "file")
    rows = [
        (
            one.role,
            one.subject,
            list(one.hosts),
            utc_text(one.ends_unix_s),
            one.fingerprint[:16],
            one.file,
        )
        for one in found
    ]
    return common.table_lines(heads, rows)


def _tls_of(configuration: Configuration, arguments: argparse.Namespace) -> TlsFiles:
    if configuration.tls is None:
        raise Failure(2, "bad-input", f"{arguments.config}: expected a table tls, got none")
    return configuration.tls


def _devices_of(configuration: Configuration, arguments: argparse.Namespace) -> DeviceTls:
    return _tls_of(configuration, arguments).devices
