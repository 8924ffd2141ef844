"""`device enroll` and `device run`: enrol and run a folder's members."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from askance_client.cli.configuration import DeviceConfiguration, read_configuration
from askance_client.cli.event_log import Journal, start_log, warn
from askance_client.cli.folder import OpenFolder
from askance_client.cli.home import DeviceHome
from askance_client.cli.members import gateway_identity, identities_of, read_people
from askance_client.errors import AskanceError, InvalidParameter, RemoteProtocolError
from askance_client.garbage_collection import rare_collections
from askance_client.owner import Consents, ControlServer
from askance_client.randomizers import SystemCoins
from askance_client.service import (
    Authority,
    CallFailed,
    CertificateFile,
    CheckInOutcome,
    Gateway,
    Identity,
    OpenSide,
    enrol,
    open_channel,
    read_authority,
    system_now_s,
)

_MAX_TOKEN_CHARACTERS = 1024
_RETRY_S = 1  # between two tries of `enroll --wait`


class AggregatorFailed(AskanceError):
    """The aggregator was not reached, or refused what was asked."""


def enroll(home: DeviceHome, path: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Make all members known to the aggregator; again is no harm."""
    configuration, token = read_configuration(path), _token(arguments)
    people = read_people(configuration)
    warn(people.warnings)
    home.bound(people.binding, configuration.counter).close()  # refuses, before anything leaves
    identities = list(identities_of(home.secret(), people.names))
    try:
        gateway = gateway_identity(home.secret(), people.names)
        open_side, certificate = _open_side(configuration), _certificate(home, configuration)
        new, known = asyncio.run(
            _enrol(arguments.wait, open_side, token, identities, gateway, certificate)
        )
        held = None if certificate is None else certificate.read()
    except (CallFailed, RemoteProtocolError) as error:
        raise AggregatorFailed(_explained(configuration, str(error))) from None
    return {
        "members": len(identities),
        "enrolled": new,
        "known": known,
        "unfit": dict(people.unfit()),
        "certificate_ends_unix_s": None if held is None else held.ends_s,
    }


def tell_enroll(result: dict[str, Any]) -> str:
    """The counts in a line; and one a field whose values are not all as the schema has them."""
    lines = [f"{result['enrolled']} enrolled, {result['known']} known already"]
    lines += [
        f"{name}: {count} of {result['members']} have a value that the schema has no place for, or"
        " lack one that it requires; they answer a question's public default"
        for name, count in result["unfit"].items()
    ]
    return "\n".join(lines)


def run_once(home: DeviceHome, path: Path, log_file: Path | None = None) -> dict[str, Any]:
    """Check in once for each member."""
    start_log(log_file)
    configuration = read_configuration(path)
    with _gateway(home, configuration, Journal()) as (gateway, _):
        outcome = asyncio.run(gateway.check_in_once())
    warn(outcome.notes)
    for failure, count in outcome.failures.most_common():
        explained = _explained(configuration, failure)
        print(f"askance: {count} of {outcome.members} members: {explained}", file=sys.stderr)
    return _outcome_json(outcome)


def tell_once(result: dict[str, Any]) -> str:
    """The counts in a line."""
    return (
        f"members {result['members']}: {result['answered']} answers, {result['refused']} refusals,"
        f" {result['unacknowledged']} unacknowledged, {result['failed']} failed"
    )


def run_on(home: DeviceHome, path: Path, *, as_json: bool, log_file: Path | None = None) -> None:
    """Hold streams for all members until a signal; log the start."""
    start_log(log_file)
    configuration = read_configuration(path)
    journal = Journal()
    with _gateway(home, configuration, journal) as (gateway, folder):
        start = {"members": gateway.members, "aggregator": str(configuration.aggregator)}
        if as_json:
            print(json.dumps(start), flush=True)
        journal.say("started members={members} aggregator={aggregator}".format(**start))
        with rare_collections():
            asyncio.run(_until_signalled(gateway, folder))
    journal.flush()
    journal.say("stopped")


async def _until_signalled(gateway: Gateway, folder: OpenFolder) -> None:
    """Run a gateway and its socket until SIGTERM or SIGINT, then hang up in order."""
    control = ControlServer(folder.home.control_path, folder.operations())
    async with control.serving():
        await _run_until_signalled(gateway)


async def _run_until_signalled(gateway: Gateway) -> None:
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    running = asyncio.ensure_future(gateway.run())
    waiting = asyncio.ensure_future(told.wait())
    await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


@contextmanager
def _gateway(
    home: DeviceHome, configuration: DeviceConfiguration, journal: Journal
) -> Iterator[tuple[Gateway, OpenFolder]]:
    """The gateway of a folder, whose files are open for the length of the block."""
    people, secret = read_people(configuration), home.secret()
    if people.warnings:  # numbers and places of rows would follow from the records
        warn(["some records are malformed or left out (device doctor names them)"])
    certificate = _certificate(home, configuration)
    channel = partial(
        open_channel,
        str(configuration.aggregator),
        _authority(configuration),
        longest_wait_ms=1000 * configuration.longest_wait_s,
        own=(lambda: None) if certificate is None else certificate.read,
    )
    coins = SystemCoins()
    with _files(home, people.binding, configuration) as folder:
        gateway = Gateway(
            people.at_work(secret, folder.ledgers, coins, journal.source_failed),
            schema=people.schema,
            policy=replace(configuration.policy, consent=folder.consents),
            coins_for=lambda _: coins,
            now_s=system_now_s,
            channel=channel,
            connections=configuration.connections,
            watcher=journal,
            identity=gateway_identity(secret, people.names),
            longest_wait_ms=1000 * configuration.longest_wait_s,
            release_ms=configuration.release_ms,
            certificate=certificate,
            consent_wait_ms=configuration.consent_wait_ms,
        )
        yield gateway, folder


@contextmanager
def _files(
    home: DeviceHome, binding: Mapping[str, str], configuration: DeviceConfiguration
) -> Iterator[OpenFolder]:
    """The ledgers and the owner's decisions, held for the length of a block."""
    ledgers = home.bound(binding, configuration.counter)
    try:
        consents = Consents.open(home.consents_path, configuration.rule)
        try:
            yield OpenFolder(home, ledgers, consents, lambda: configuration, running=True)
        finally:
            consents.close()
    finally:
        ledgers.close()


async def _enrol(
    wait_s: int,
    open_side: OpenSide,
    token: bytes,
    identities: Sequence[Identity],
    gateway: Identity | None,
    certificate: CertificateFile | None,
) -> tuple[int, int]:
    """Enrol, and try again for `wait_s` seconds while the aggregator is not reached."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + wait_s
    while True:
        try:
            return await enrol(open_side, token, identities, gateway, certificate)
        except CallFailed as failure:
            if failure.status != "UNAVAILABLE" or loop.time() + _RETRY_S > until_s:
                raise
        await asyncio.sleep(_RETRY_S)


def _open_side(configuration: DeviceConfiguration) -> OpenSide:
    return OpenSide(str(configuration.aggregator), _authority(configuration))


def _certificate(home: DeviceHome, configuration: DeviceConfiguration) -> CertificateFile | None:
    """Return the file of the device's certificate; None: plain text, which shows none."""
    if configuration.ca is None:
        return None
    return CertificateFile(home.certificate_path, system_now_s, _open_side(configuration))


def _authority(configuration: DeviceConfiguration) -> Authority | None:
    """The reader of the certificate file, which must hold a certificate."""
    path = configuration.ca
    if path is None:
        return None
    try:
        read_authority(path)
    except InvalidParameter as error:
        raise InvalidParameter(f"{configuration.path}: {error}") from None
    return partial(read_authority, path)


def _token(arguments: argparse.Namespace) -> bytes:
    if arguments.token is not None:
        text: str = arguments.token
    elif str(arguments.token_file) == "-":
        text = sys.stdin.read(_MAX_TOKEN_CHARACTERS + 2)
    else:
        try:
            text = arguments.token_file.read_text(encoding="utf-8")
        except OSError as error:
            raise InvalidParameter(
                f"--token-file: {arguments.token_file} cannot be read: {error.strerror}"
            ) from None
        except UnicodeDecodeError:
            raise InvalidParameter(
                f"--token-file: expected a token in {arguments.token_file}, got other bytes"
            ) from None
    text = text.strip()
    if not text.isascii() or not 1 <= len(text) <= _MAX_TOKEN_CHARACTERS:
        raise InvalidParameter(
            f"enrolment token: expected one line of 1 to {_MAX_TOKEN_CHARACTERS} ASCII characters,"
            f" got {len(text)} characters"
        )
    return text.encode("ascii")


def _outcome_json(outcome: CheckInOutcome) -> dict[str, Any]:
    return {
        "members": outcome.members,
        "answered": outcome.answered,
        "refused": outcome.refusals.total(),
        "unacknowledged": outcome.unacknowledged,
        "failed": outcome.failures.total(),
        "refusals": dict(outcome.refusals),
    }


def _explained(configuration: DeviceConfiguration, failure: str) -> str:
    """A failure with what its owner may have set wrong."""
    place = f"aggregator {configuration.aggregator}"
    for sign, meaning in _MEANINGS:
        if sign in failure:
            return f"{place}: {meaning}: {failure}"
    return f"{place}: {failure}"


_MEANINGS = (
    ("CERTIFICATE_VERIFY_FAILED", "expected a certificate that the ca signed, got another"),
    ("WRONG_VERSION_NUMBER", "expected TLS, got plain text"),
)
