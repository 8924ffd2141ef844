"""The command `askance console`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from askance.cli.aggregator.common import address_of
from askance.cli.output import Failure, print_json
from askance.cli.study_connection import add_aggregator, connected

NAME = "console"
SUMMARY = "open a console in the browser, for operators and analysts"
DESCRIPTION = (
    "Serves a console of an aggregator to browsers on this machine, and prints a login link that"
    " works once. The console calls the aggregator with your key or token, which no browser gets,"
    " and shows what your role may see. Other machines reach it only with --listen and a"
    " certificate. Needs pip install 'askance[console]'."
)
_LISTEN = "127.0.0.1:7460"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add_aggregator(parser)
    parser.add_argument(
        "--listen",
        default=_LISTEN,
        metavar="HOST:PORT",
        help=f"where browsers call; default {_LISTEN}; port 0 takes a free one",
    )
    parser.add_argument(
        "--certificate", type=Path, metavar="FILE.pem", help="serve over TLS with this chain"
    )
    parser.add_argument(
        "--certificate-key", type=Path, metavar="FILE.pem", help="private key of --certificate"
    )
    parser.add_argument(
        "--name",
        action="append",
        default=[],
        metavar="HOST",
        help="a host's name by which browsers call it, beside --listen's; may be repeated",
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what fails stands on the page
    try:
        from askance.console.server import ConsoleSettings
        from askance.console.serving import serve_console
    except ImportError as error:
        from askance_aggregator.extras import install_text

        raise Failure(
            2,
            "usage",
            f"console: expected {error.name} installed ({install_text('console')})",
        ) from None
    settings = ConsoleSettings(
        address_of(arguments.listen),
        arguments.certificate,
        arguments.certificate_key,
        tuple(arguments.name),
    )

    def ready(address: str) -> None:
        if not arguments.json:
            print(f"console of {arguments.aggregator} at {address}; Ctrl-C ends it")

    def announce(link: str) -> None:
        if arguments.json:
            print_json({"listening": link.partition("/login")[0], "login": link})
        else:
            print(f"log in within ten minutes, once: {link}")
        sys.stdout.flush()

    try:
        with connected(arguments) as aggregator:
            serve_console(aggregator, settings, ready=ready, announce=announce)
    except KeyboardInterrupt:  # the server has ended in order
        return 0
    return 0
