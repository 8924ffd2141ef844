"""`askance aggregator init`: an aggregator's folder."""

from __future__ import annotations

import argparse
from pathlib import Path

from askance.cli.aggregator.common import add_command, address_of
from askance.cli.output import print_json

_LISTEN = "127.0.0.1:7443"
_MAKES = (
    "Makes a folder with an aggregator's configuration, store, certificates and keys. Nothing is"
    " ever overwritten."
)


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    init = add_command(
        commands, "init", _init, summary="make an aggregator's folder", description=_MAKES
    )
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


def _init(arguments: argparse.Namespace) -> int:
    from askance_aggregator.clock import system_now_s
    from askance_aggregator.server.process.home import AggregatorHome

    home = AggregatorHome.create(
        arguments.folder,
        listen=address_of(arguments.listen),
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
