"""`device doctor`: checks of a folder and of what it needs, before a device runs or while it does.

Nothing is changed, and nothing of a record leaves: the aggregator sees a connection without a call.
"""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import stat
from calendar import timegm
from collections.abc import Callable, Container, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from cryptography import x509

from askance_client.cli.configuration import DeviceConfiguration, read_configuration
from askance_client.cli.home import DeviceHome
from askance_client.cli.members import MemberRoster, read_people
from askance_client.durable_files import sync
from askance_client.errors import AskanceError
from askance_client.owner import is_running
from askance_client.printable import printable
from askance_client.records import field_name
from askance_client.service import CertificateFile, OpenSide, read_authority
from askance_client.service.clock import system_now_s, utc_text

_LEAST_FREE_BYTES = 64 << 20  # as many as one study's requests may take
_SOON_S = 30 * 86_400  # a certificate that ends within this time is to be renewed
_REACH_TIMEOUT_S = 5
_FIRST_S = 1_735_689_600  # 2025-01-01: a clock before this was never set
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check.

    Args:
      help: what to do, in a line; empty if nothing is wrong.
    """

    check: str
    ok: bool
    text: str
    help: str = ""


class _Wrong(AskanceError):
    """Something is wrong: what was found, and what to do."""

    def __init__(self, text: str, advice: str) -> None:
        super().__init__(text)
        self.advice = advice


def examine(
    home: DeviceHome, path: Path, now_s: Callable[[], int] = system_now_s
) -> dict[str, Any]:
    """Run all checks and return their results; `ok` is True if all are."""
    findings = list(_findings(home, path, now_s()))
    return {
        "ok": all(found.ok for found in findings),
        "checks": [
            {"check": found.check, "ok": found.ok, "text": found.text, "help": found.help}
            for found in findings
        ],
    }


def tell_examination(result: dict[str, Any]) -> str:
    """Format a line per check, and one of help below each that failed."""
    lines = []
    for found in result["checks"]:
        lines.append(f"{'ok  ' if found['ok'] else 'FAIL'}  {found['check']}: {found['text']}")
        if found["help"]:
            lines.append(f"      {found['help']}")
    return "\n".join(lines)


def _findings(home: DeviceHome, path: Path, now_s: int) -> Iterator[Finding]:
    yield _checked("folder", lambda: _folder(home))
    if not home.folder.is_dir():
        return  # every other check would fail for the same reason
    yield _checked("identity", lambda: f"device {home.secret().device().device_id.hex()}")
    yield _checked("disk", lambda: _disk(home))
    configured: list[DeviceConfiguration] = []
    yield _checked("configuration", lambda: _configuration(path, configured))
    if not configured:
        return  # without it there is nothing more to look at
    (configuration,) = configured
    yield _checked("records", lambda: _records(configuration))
    yield _checked("ledger", lambda: _ledger(home, configuration))
    yield _checked("clock", lambda: _clock(home, now_s))
    yield _checked("certificate", lambda: _authority(configuration, now_s))
    yield _checked("aggregator", lambda: _reach(configuration, now_s))
    yield _checked("devices' port", lambda: _devices_port(home, configuration, now_s))


def _checked(name: str, check: Callable[[], str]) -> Finding:
    try:
        return Finding(name, True, check())
    except _Wrong as wrong:
        return Finding(name, False, str(wrong), wrong.advice)
    except AskanceError as error:
        return Finding(name, False, " ".join(str(error).split()), _ADVICE[name])
    except OSError as error:
        text = error.strerror or type(error).__name__
        where = "" if error.filename is None else f"{error.filename}: "
        return Finding(name, False, printable(where + text), _ADVICE[name])


_ADVICE = {
    "folder": "make one with `device init`",
    "identity": "put back the newest copy of the whole folder",
    "disk": "free some space, or make the folder writable for its owner",
    "configuration": "correct device.toml; `device init` writes one with every key explained",
    "records": "correct [records] in device.toml, or the file that it names",
    "ledger": "see `A ledger is refused` in docs/deployment.md",
    "clock": "set the system's clock",
    "certificate": "set ca in device.toml to the operator's ca.pem",
    "aggregator": "check the address in device.toml, the network, and that the aggregator runs",
    "devices' port": "open it in the firewall, or ask the operator where devices call (advertised)",
}


def _folder(home: DeviceHome) -> str:
    if not home.folder.is_dir():
        raise _Wrong(f"expected a folder at {home.folder}, got none", _ADVICE["folder"])
    for path in (home.folder, *sorted(home.folder.iterdir())):
        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            continue  # not the device's own files; the socket's mode is set when it is made
        found = path.stat()
        if found.st_mode & _OTHERS and _is_private(home, path):
            raise _Wrong(
                f"{path}: expected no rights of other users, got mode"
                f" {stat.S_IMODE(found.st_mode):04o}",
                f"chmod go-rwx {path}",
            )
        if found.st_uid != os.geteuid():
            raise _Wrong(
                f"{path}: expected a file of this user, got one of user {found.st_uid}",
                f"run as that user, or chown {path}",
            )
    return f"{home.folder}, for its owner only"


def _is_private(home: DeviceHome, path: Path) -> bool:
    """Return whether others are to have no rights: records may stand in the folder as well."""
    return path == home.folder or path.suffix in (".sqlite", ".mark", ".json")


def _disk(home: DeviceHome) -> str:
    free = shutil.disk_usage(home.folder).free
    if free < _LEAST_FREE_BYTES:
        raise _Wrong(
            f"expected {_LEAST_FREE_BYTES >> 20} MiB free, got {free >> 20} MiB", _ADVICE["disk"]
        )
    sync(home.folder)
    if not os.access(home.folder, os.W_OK):
        raise _Wrong("expected a folder that can be written, got one that cannot", _ADVICE["disk"])
    return f"{free >> 20:,} MiB free"


def _configuration(path: Path, found: list[DeviceConfiguration]) -> str:
    found.append(read_configuration(path))
    return str(path)


def _records(configuration: DeviceConfiguration) -> str:
    people = read_people(configuration)
    if people.warnings:
        raise _Wrong(
            f"{_members(people)}; {printable(people.warnings[0])}"
            + (f", and {len(people.warnings) - 1} more" if len(people.warnings) > 1 else ""),
            _ADVICE["records"],
        )
    for field, column, other in _mistakable(people, configuration.records.columns):
        raise _Wrong(
            f"the field {field} is read from the column {column!r}, and {other!r} would be it, too",
            f'state the column: {field} = "{column}" in [records.fields]',
        )
    short = [name for name in people.unfit() if people.schema.fields[name].required]
    if short:
        raise _Wrong(
            f"{_members(people)}; not all have {', '.join(short)}, which the schema requires",
            "complete the records; without a value they answer a question's public default",
        )
    return _members(people)


def _mistakable(people: MemberRoster, stated: Container[str]) -> Iterator[tuple[str, str, str]]:
    """Yield each field that the schema's author may have meant another column by, and both."""
    table, fields = people.members.table, people.schema.fields
    if table is not None:
        for other, marked in zip(table.written, table.names, strict=True):
            name = field_name(other)
            if marked not in fields and name in fields and name not in stated:
                yield name, table.written[table.column_index(name)], printable(other)


def _members(people: MemberRoster) -> str:
    number = len(people.names)
    return f"{number:,} member{'s' if number != 1 else ''}"


def _ledger(home: DeviceHome, configuration: DeviceConfiguration) -> str:
    if is_running(home.control_path):
        return "held by the running device"
    try:
        binding = read_people(configuration).binding
    except (AskanceError, OSError):
        raise _Wrong(
            "not checked, because the records cannot be read", _ADVICE["records"]
        ) from None
    home.bound(binding, configuration.counter).close()  # opens it, with chain, mark and counter
    counted = "" if configuration.counter is None else ", not behind its counter"
    return f"whole{counted}, and bound to these records"


def _clock(home: DeviceHome, now_s: int) -> str:
    if now_s < _FIRST_S:
        raise _Wrong(f"expected a date after 2024, got {utc_text(now_s)}", _ADVICE["clock"])
    if not is_running(home.control_path):
        try:
            ledgers = home.ledgers()
        except AskanceError:  # which the check of the ledger reports
            return f"{utc_text(now_s)}; not compared with the ledger, which cannot be opened"
        with closing(ledgers):
            last_s = max(
                (ledgers.ledger(name).totals(bytes(32), 0).last_s for name in ledgers.members()),
                default=0,
            )
        if last_s > now_s:
            raise _Wrong(
                f"the clock says {utc_text(now_s)}, before the last charge at {utc_text(last_s)}",
                "set the clock; if it is right, see `device repair-clock`",
            )
    return utc_text(now_s)


def _authority(configuration: DeviceConfiguration, now_s: int) -> str:
    if configuration.ca is None:
        return "none: plain text"
    try:
        found = x509.load_pem_x509_certificates(configuration.ca.read_bytes())
    except ValueError:
        raise _Wrong(
            f"{configuration.ca}: expected a certificate (PEM), got other bytes",
            _ADVICE["certificate"],
        ) from None
    end_s = min(timegm(certificate.not_valid_after_utc.utctimetuple()) for certificate in found)
    return _lasting(f"{configuration.ca}", end_s, now_s)


def _lasting(name: str, end_s: int, now_s: int) -> str:
    if end_s - now_s < _SOON_S:
        state = "ended" if end_s <= now_s else "ends"
        raise _Wrong(f"{name} {state} on {utc_text(end_s)}", "ask the operator for a new one")
    return f"{name}, until {utc_text(end_s)}"


def _reach(configuration: DeviceConfiguration, now_s: int) -> str:
    address = configuration.aggregator
    if configuration.ca is not None and not configuration.ca.is_file():
        text = f"{address}: not tried, because {configuration.ca} is no file"
        raise _Wrong(text, _ADVICE["certificate"])
    with socket.create_connection((address.host, address.port), _REACH_TIMEOUT_S) as connected:
        if configuration.ca is None:
            return f"{address} is reached"
        context = ssl.create_default_context(cafile=str(configuration.ca))
        context.set_alpn_protocols(["h2"])
        try:
            with context.wrap_socket(connected, server_hostname=address.host) as secure:
                peer = secure.getpeercert() or {}
        except ssl.SSLError as error:
            raise _Wrong(
                f"{address}: expected TLS with a certificate that the ca signed, got"
                f" {printable(error.reason or type(error).__name__)}",
                _ADVICE["certificate"],
            ) from None
    end_s = ssl.cert_time_to_seconds(str(peer["notAfter"]))
    return _lasting(f"{address} is reached; its certificate", end_s, now_s)


def _devices_port(home: DeviceHome, configuration: DeviceConfiguration, now_s: int) -> str:
    if configuration.ca is None:
        return "none: plain text"
    side = OpenSide(str(configuration.aggregator), partial(read_authority, configuration.ca))
    held = CertificateFile(home.certificate_path, lambda: now_s, side).read()
    if held is None or not held.address:
        return "not tried: no valid certificate is there; `device run` gets one"
    if side.is_refused(held):
        raise _Wrong(f"{held.address} refuses the certificate", "run the device: it gets another")
    return f"{held.address} is reached, and accepts the certificate"
