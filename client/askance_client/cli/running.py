"""`device enroll` and `device run`: enrol and run a folder's members."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from askance_client.cli.configuration import DeviceConfiguration, read_configuration
from askance_client.cli.event_log import Journal, start_log, warn
from askance_client.cli.folder import OpenFolder
from askance_client.cli.home import DeviceHome
from askance_client.cli.members import enrolment_of, gateway_identity, read_people
from askance_client.errors import AskanceError, InvalidParameter, RemoteProtocolError
from askance_client.garbage_collection import rare_collections
from askance_client.owner import Consents, ControlServer
from askance_client.randomizers import SystemCoins
from askance_client.service import (
    AggregatorAccess,
    CallFailed,
    CheckInOutcome,
    Enrolment,
    Gateway,
    an_enrolment_token,
    read_authority,
    system_now_s,
)
from askance_client.service.exchange import MAX_ENROLMENT_TOKEN_BYTES
from askance_client.service.open_side import NOT_REACHED

_RETRY_S = 1  # between two tries of `enroll --wait`


class AggregatorFailed(AskanceError):
    """The aggregator was not reached, or refused what was asked."""


def enroll(home: DeviceHome, path: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Make all members known to the aggregator; again is no harm."""
    configuration = read_configuration(path)
    token = _token(arguments, configuration)
    people = read_people(configuration)
    warn(people.warnings)
    home.bound(people.binding, configuration.counter).close()  # refuses, before anything leaves
    connection = _access(home, configuration)
    enrolment = enrolment_of(home, people.names, connection, token)
    try:
        new, known = asyncio.run(_enrol(arguments.wait, enrolment, token))
    except (CallFailed, RemoteProtocolError) as error:
        raise AggregatorFailed(f"aggregator {configuration.aggregator}: {error}") from None
    held = None if connection.certificate is None else connection.certificate.read()
    return {
        "members": len(people.names),
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
        explained = f"aggregator {configuration.aggregator}: {failure}"
        print(f"askance: {count} of {outcome.members} members: {explained}", file=sys.stderr)
    return _outcome_json(outcome)


def tell_once(result: dict[str, Any]) -> str:
    """The counts in a line."""
    return (
        f"members {result['members']}: answered {result['answered']}, refused {result['refused']},"
        f" unacknowledged {result['unacknowledged']}, failed {result['failed']}"
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
        loop = asyncio.get_running_loop()
        running = loop.create_task(gateway.run())
        for number in (signal.SIGTERM, signal.SIGINT):  # a second signal cuts no end short
            loop.add_signal_handler(number, lambda: running.cancelling() or running.cancel())
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
    connection, coins = _access(home, configuration), SystemCoins()
    held = configuration.token_file  # of a folder that was enrolled, it may be gone
    token = _token_in(held) if held is not None and held.exists() else None
    with (  # the ledgers and the owner's decisions, held for the length of the block
        closing(home.bound(people.binding, configuration.counter)) as ledgers,
        closing(Consents.open(home.consents_path, configuration.rule)) as consents,
    ):
        folder = OpenFolder(home, ledgers, consents, lambda: configuration, running=True)
        gateway = Gateway(
            people.at_work(secret, ledgers, coins, journal.source_failed),
            schema=people.schema,
            policy=replace(configuration.policy, consent=consents),
            coins_for=lambda _: coins,
            now_s=system_now_s,
            channel=connection.channel,
            connections=configuration.connections,
            watcher=journal,
            identity=gateway_identity(secret, people.names),
            longest_wait_ms=1000 * configuration.longest_wait_s,
            release_ms=configuration.release_ms,
            certificate=connection.certificate,
            enrolment=enrolment_of(home, people.names, connection, token),
            consent_wait_ms=configuration.consent_wait_ms,
        )
        yield gateway, folder


async def _enrol(wait_s: int, enrolment: Enrolment, token: bytes) -> tuple[int, int]:
    """Enrol, and try again for `wait_s` seconds while the aggregator is not reached."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + wait_s
    while True:
        try:
            return await enrolment.enrol(token)
        except CallFailed as failure:
            if failure.status != NOT_REACHED or loop.time() + _RETRY_S > until_s:
                raise
        await asyncio.sleep(_RETRY_S)


def _access(home: DeviceHome, configuration: DeviceConfiguration) -> AggregatorAccess:
    """The connection to the aggregator; the file `ca` must hold a certificate."""
    ca, wait_ms = configuration.ca, 1000 * configuration.longest_wait_s
    try:
        if ca is not None:
            read_authority(ca)
    except InvalidParameter as error:
        raise InvalidParameter(f"{configuration.path}: {error}") from None
    return AggregatorAccess(configuration.aggregator, ca, home.certificate_path, wait_ms)


def _token(arguments: argparse.Namespace, configuration: DeviceConfiguration) -> bytes:
    if arguments.token is not None:
        return an_enrolment_token(arguments.token)
    if str(arguments.token_file) == "-":
        return an_enrolment_token(sys.stdin.read(MAX_ENROLMENT_TOKEN_BYTES + 2))
    path = arguments.token_file or configuration.token_file
    if path is None:
        raise InvalidParameter("expected --token or --token-file (or token_file in device.toml)")
    return _token_in(path)


def _token_in(path: Path) -> bytes:
    try:
        return an_enrolment_token(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidParameter(f"token file {path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidParameter(f"token file {path}: expected a token, got other bytes") from None


def _outcome_json(outcome: CheckInOutcome) -> dict[str, Any]:
    return {
        "members": outcome.members,
        "answered": outcome.answered,
        "refused": outcome.refusals.total(),
        "unacknowledged": outcome.unacknowledged,
        "failed": outcome.failures.total(),
        "refusals": dict(outcome.refusals),
    }
