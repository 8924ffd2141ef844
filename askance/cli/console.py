"""The command `askance console`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from askance.cli.aggregator.common import address_of
from askance.cli.arguments import add_aggregator, connected
from askance.cli.output import Failure, print_answer, print_json

if TYPE_CHECKING:
    from askance.console.openid import IssuerSettings
    from askance_aggregator.analyst import Aggregator

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
    group = parser.add_argument_group(
        "several people",
        "people log in by the organisation's OpenID Connect issuer, and the aggregator gets the"
        " token of each; such a console holds no key",
    )
    group.add_argument("--oidc-issuer", metavar="URL", help="the issuer, as its tokens name it")
    group.add_argument("--oidc-client", metavar="ID", help="id of this console at the issuer")
    group.add_argument(
        "--oidc-client-secret-file",
        type=Path,
        metavar="FILE",
        help="secret of this console at the issuer (default: none, a public client)",
    )
    group.add_argument(
        "--oidc-scope",
        default="openid",
        metavar="WORDS",
        help='what is asked of the issuer; "openid offline_access" for sessions beyond one token',
    )
    group.add_argument(
        "--oidc-token",
        choices=("id-token", "access-token"),
        default="id-token",
        help="what the aggregator gets; default id-token",
    )


def _issuer_of(arguments: argparse.Namespace) -> IssuerSettings | None:
    """Return the issuer that the options name; None: one caller logs in by a link."""
    from askance.console.openid import ForwardedToken, IssuerSettings

    client = arguments.oidc_client
    if arguments.oidc_issuer is None and client is None:
        return None
    if arguments.oidc_issuer is None or client is None:
        raise Failure(2, "usage", "console: expected --oidc-issuer and --oidc-client, got one")
    if arguments.key is not None or arguments.bearer_token_file is not None:
        raise Failure(
            2,
            "usage",
            "console: expected neither --key nor --bearer-token-file with --oidc-issuer, because"
            " each person calls with a token of their own",
        )
    file, secret = arguments.oidc_client_secret_file, ""
    if file is not None:
        try:
            secret = file.read_text().strip()
        except (OSError, ValueError):
            secret = ""
        if not secret:
            raise Failure(
                2, "usage", f"--oidc-client-secret-file: expected a file with a text, got {file}"
            )
    return IssuerSettings(
        arguments.oidc_issuer,
        client,
        secret,
        arguments.oidc_scope,
        ForwardedToken(arguments.oidc_token),
    )


def _connected(arguments: argparse.Namespace, issuer: IssuerSettings | None) -> Aggregator:
    """Connect to the aggregator: as one caller, or without one until a person has logged in."""
    if issuer is None:
        return connected(arguments)
    from askance_aggregator.analyst import CallRefused, connect

    def without_person() -> str:
        raise CallRefused("bad-token", "console: expected a person who has logged in, got none")

    return connect(
        arguments.aggregator,
        bearer_token=without_person,
        ca=arguments.ca,
        plaintext=arguments.plaintext,
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what fails stands on the page
    try:
        from askance.console.application import serve_console
        from askance.console.server import ConsoleSettings
    except ImportError as error:
        from askance_aggregator.extras import install_text

        raise Failure(
            2,
            "usage",
            f"console: expected {error.name} installed ({install_text('console')})",
        ) from None
    issuer = _issuer_of(arguments)
    settings = ConsoleSettings(
        address_of(arguments.listen),
        arguments.certificate,
        arguments.certificate_key,
        tuple(arguments.name),
    )

    def ready(address: str) -> None:
        if not arguments.json:
            print(f"console of {arguments.aggregator} at {address}; Ctrl-C ends it")
        elif issuer is not None:
            print_json({"listening": address, "login": f"{address}/login"})
        if issuer is not None:
            sys.stdout.flush()

    def announce(link: str) -> None:
        content = {"listening": link.partition("/login")[0], "login": link}
        print_answer(arguments, content, f"log in within ten minutes, once: {link}")
        sys.stdout.flush()

    try:
        with _connected(arguments, issuer) as aggregator:
            serve_console(aggregator, settings, ready=ready, announce=announce, issuer=issuer)
    except KeyboardInterrupt:  # the server has ended in order
        return 0
    return 0
