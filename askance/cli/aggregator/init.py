"""`askance aggregator init`: an aggregator's folder."""

from __future__ import annotations

import argparse
from pathlib import Path

from askance.cli.aggregator.common import add_command, address_of
from askance.cli.output import Failure, print_answer

_LISTEN = "127.0.0.1:7443"
_MAKES = (
    "Makes a folder with an aggregator's configuration, store, certificates and keys. Nothing is"
    " ever overwritten. With --replica it makes the folder of another process that serves from the"
    " same PostgreSQL database: copies of the keys, the settings, and a name and an address of its"
    " own."
)


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    init = add_command(commands, "init", _init, "make an aggregator's folder", _MAKES)
    init.add_argument("folder", type=Path, metavar="DIR", help="the folder: new, or empty")
    init.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME",
        help="a name or address that devices reach it by; may be repeated",
    )
    init.add_argument(
        "--replica",
        type=Path,
        metavar="OF",
        help="the folder of the aggregator of which this one is a replica",
    )
    init.add_argument(
        "--name", metavar="NAME", help="with --replica: its name; default: that of the folder"
    )
    init.add_argument(
        "--listen",
        default=_LISTEN,
        metavar="HOST:PORT",
        help=f"the address to serve at; default {_LISTEN}",
    )


def _init(arguments: argparse.Namespace) -> int:
    from askance_aggregator.clock import system_now_s
    from askance_aggregator.server.process.home import AggregatorHome

    if arguments.replica is not None:
        return _init_replica(arguments)
    if arguments.name is not None:
        raise Failure(2, "usage", "--name: expected --replica with it, got none")
    home = AggregatorHome.create(
        arguments.folder,
        listen=address_of(arguments.listen),
        hosts=arguments.host,
        now_s=system_now_s(),
    )
    return print_answer(
        arguments,
        {
            "folder": str(home.folder),
            "configuration": str(home.configuration),
            "ca": str(home.authority),
            "analyst_key": str(home.analyst_key),
            "analyst_public_key": home.analyst.hex(),
        },
        f"an aggregator in {home.folder}",
        f"  start it:                 askance aggregator serve --config {home.configuration}",
        f"  devices and analysts pin: {home.authority}",
        f"  devices answer studies of analyst {home.analyst.hex()}",
        f"  whose private key is      {home.analyst_key}",
    )


def _init_replica(arguments: argparse.Namespace) -> int:
    from askance_aggregator.server.process.home import create_replica

    if arguments.host:
        raise Failure(
            2, "usage", "--host: expected none with --replica, whose certificate is the first's"
        )
    name = arguments.name or arguments.folder.resolve().name
    listen = address_of(arguments.listen)
    made = create_replica(arguments.folder, arguments.replica, name=name, listen=listen)
    return print_answer(
        arguments,
        {"folder": str(arguments.folder), "configuration": str(made), "replica": name},
        f"a replica, {name}, of the aggregator in {arguments.replica}",
        f"  look at it:  askance aggregator doctor --config {made}",
        f"  start it:    askance aggregator serve --config {made}",
    )
