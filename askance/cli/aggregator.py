"""`askance aggregator`: the operator's commands, for an aggregator that is a process."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from askance.cli.arguments import count
from askance.cli.output import Failure, print_json
from askance_aggregator.reports.texts import counted

if TYPE_CHECKING:
    from askance_aggregator.server.process.configuration import Configuration
    from askance_aggregator.server.process.status import Status
    from askance_client.addresses import Address

NAME = "aggregator"
SUMMARY = "run an aggregator of your own: init, serve, token, status"
DESCRIPTION = "The commands of an aggregator's operator. Start with: askance aggregator init DIR"

_LISTEN = "127.0.0.1:7443"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the operator's commands."""
    commands = parser.add_subparsers(dest="aggregator_command", metavar="COMMAND", required=True)
    init = commands.add_parser("init", help="make an aggregator's folder", description=_MAKES)
    init.add_argument("folder", type=Path, metavar="DIR", help="the folder: new, or empty")
    init.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME",
        help="a name or address that devices reach it by; may be repeated",
    )
    init.add_argument(
        "--listen",
        default=_LISTEN,
        metavar="HOST:PORT",
        help=f"the address to serve at; default {_LISTEN}",
    )
    serve = commands.add_parser(
        "serve", help="serve devices and analysts until a signal", description=_SERVES
    )
    _add_configuration(serve)
    _add_listen(serve)
    serve.add_argument("--store", metavar="URL", help="the store, in place of the configuration's")
    token = commands.add_parser(
        "token", help="print a token that enrols devices", description=_PRINTS
    )
    _add_configuration(token)
    token.add_argument(
        "--devices",
        type=count,
        default=1,
        metavar="N",
        help="number of devices that the token enrols; default 1",
    )
    token.add_argument(
        "--days", type=count, default=7, metavar="D", help="days until the token expires; default 7"
    )
    status = commands.add_parser("status", help="print the aggregator's state", description=_ASKS)
    _add_configuration(status)
    _add_listen(status)
    for sub, run_command in ((init, _init), (serve, _serve), (token, _token), (status, _status)):
        for option, what in (
            ("--json", "print one JSON object, nothing else"),
            ("--debug", "on an error, print the traceback"),
        ):
            # Suppressed, so that the same option before the command's name is not undone.
            sub.add_argument(option, action="store_true", default=argparse.SUPPRESS, help=what)
        sub.set_defaults(run_command=run_command)


_MAKES = (
    "Makes a folder with an aggregator's configuration, store, certificates and keys. Nothing is"
    " ever overwritten."
)
_SERVES = (
    "Serves devices and analysts until SIGTERM or Ctrl-C, then drains: what has arrived is"
    " committed, open studies go on at the next start. Logs go to stderr."
)
_PRINTS = "Prints a token with which devices may be enrolled. Every holder of the token can use it."
_ASKS = "Asks a running aggregator for its state; if none runs, reads the store itself."


def run(arguments: argparse.Namespace) -> int:
    """Run one of them."""
    code: int = arguments.run_command(arguments)
    return code


def _add_configuration(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        type=Path,
        default=Path("aggregator.toml"),
        metavar="FILE.toml",
        help="the configuration; default ./aggregator.toml",
    )


def _add_listen(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--listen", metavar="HOST:PORT", help="the address, in place of the configuration's"
    )


def _init(arguments: argparse.Namespace) -> int:
    from askance_aggregator.clock import system_now_s
    from askance_aggregator.server.process.home import AggregatorHome

    home = AggregatorHome.create(
        arguments.folder,
        listen=_address(arguments.listen),
        hosts=arguments.host,
        now_s=system_now_s(),
    )
    if arguments.json:
        print_json(
            {
                "folder": str(home.folder),
                "configuration": str(home.configuration),
                "ca": str(home.authority),
                "analyst_key": str(home.analyst_key),
                "analyst_public_key": home.analyst.hex(),
            }
        )
        return 0
    print(f"an aggregator in {home.folder}")
    print(f"  start it:                 askance aggregator serve --config {home.configuration}")
    print(f"  devices and analysts pin: {home.authority}")
    print(f"  devices answer studies of analyst {home.analyst.hex()}")
    print(f"  whose private key is      {home.analyst_key}")
    return 0


def _serve(arguments: argparse.Namespace) -> int:
    # gRPC's own lines on stderr are no JSON; what it cannot do comes back as errors.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    configuration = _configuration(arguments)
    from askance_aggregator.server.process.logs import logs_to
    from askance_aggregator.server.process.process import Listening, draining_at_signals, serve

    def ready(listening: Listening) -> None:
        if arguments.json:
            print_json(listening.to_json())
        else:
            resumed = counted(listening.studies_resumed, "open study")
            print(f"listening on {listening.address}; {resumed} resumed")
        sys.stdout.flush()

    with logs_to(sys.stderr, configuration.log_level), draining_at_signals() as stopping:
        serve(configuration, stopping=stopping, ready=ready)
    gc.freeze()  # the process ends: a collection of what a flood has left would take a second
    return 0


def _token(arguments: argparse.Namespace) -> int:
    from askance_aggregator.clock import system_now_s
    from askance_aggregator.server.process.configuration import read_configuration
    from askance_aggregator.server.process.tokens import read_tokens

    configuration = read_configuration(arguments.config)
    if configuration.enrolment_key is None:
        raise Failure(2, "bad-input", f"{arguments.config}: expected a table enrolment, got none")
    tokens = read_tokens(configuration.enrolment_key, system_now_s)
    token = tokens.issue(arguments.devices, arguments.days)
    if arguments.json:
        print_json(
            {"token": token.text, "devices": token.devices, "ends_unix_s": token.ends_unix_s}
        )
    else:
        print(token.text)
        what = f"{counted(token.devices, 'device')}, for {counted(arguments.days, 'day')}"
        print(f"enrolls {what}", file=sys.stderr)
    return 0


def _status(arguments: argparse.Namespace) -> int:
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    configuration = _configuration(arguments)
    from askance_aggregator.server.process.status import status

    found = status(configuration)
    if arguments.json:
        print_json(found.to_json())
        return 0
    print(f"{found.address}: {'serving' if found.serving else 'not serving'}{_why(found)}")
    for name, value in found.to_json().items():
        if name not in ("serving", "address") and value is not None:
            print(f"  {status_line(name, value)}")
    return 0


def status_line(name: str, value: int | Mapping[str, int]) -> str:
    """Format an entry of a status: a date in UTC, a number with its unit last, or counts.

    Args:
        name: the entry's key; the ending `_unix_s` means Unix seconds, `_s` seconds.
        value: a whole number, or numbers by name.
    """
    from askance_client.service.clock import utc_text

    if not isinstance(value, int):
        return f"{name.replace('_', ' ')}: {_counts(value)}"
    if name.endswith("_unix_s"):
        return f"{name.removesuffix('_unix_s').replace('_', ' ')}: {utc_text(value)}"
    shown = f"{value:,} s" if name.endswith("_s") else f"{value:,}"
    return f"{name.removesuffix('_s').replace('_', ' ')}: {shown}"


def _why(found: Status) -> str:
    """The failures for which a running aggregator does not serve."""
    failing = [kind for kind, count in (found.failures_in_a_row or {}).items() if count]
    return f" (failing: {', '.join(failing)}; see its log)" if failing else ""


def _counts(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in numbers.items() if number) or "none"


def _configuration(arguments: argparse.Namespace) -> Configuration:
    from askance_aggregator.server.process.configuration import read_configuration, store_file

    listen = None if arguments.listen is None else _address(arguments.listen)
    url = getattr(arguments, "store", None)
    try:
        store = None if url is None else store_file(url)
    except ValueError as error:
        raise Failure(2, "usage", f"--store: {error}") from None
    return read_configuration(arguments.config, listen=listen, store=store)


def _address(text: str) -> Address:
    from askance_client.addresses import Address

    try:
        return Address.of(text)
    except ValueError as error:
        raise Failure(2, "usage", f"--listen: {error}") from None
