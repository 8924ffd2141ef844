"""Connection of `askance study` to an aggregator."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from askance.cli.output import Failure

if TYPE_CHECKING:
    from askance_aggregator.analyst import Aggregator

_AGGREGATOR = "127.0.0.1:7443"


def add_aggregator(parser: argparse.ArgumentParser) -> None:
    """Add the options that reach an aggregator as one caller."""
    parser.add_argument(
        "--aggregator",
        default=_AGGREGATOR,
        metavar="HOST:PORT",
        help=f"the aggregator's address; default {_AGGREGATOR}",
    )
    parser.add_argument(
        "--key",
        type=Path,
        metavar="FILE.pem",
        help="the caller's private key; signs calls if there is no token, and an analyst's studies",
    )
    parser.add_argument(
        "--bearer-token-file",
        type=Path,
        metavar="FILE",
        help="a token of the organisation's issuer, in place of signed calls; read for each call",
    )
    parser.add_argument(
        "--ca",
        type=Path,
        metavar="FILE.pem",
        help="the authority of the aggregator's certificate (default: the system's; on this"
        " machine, plain text)",
    )
    parser.add_argument("--plaintext", action="store_true", help="no TLS: readable by the network")


def connected(arguments: argparse.Namespace) -> Aggregator:
    """Connect to the aggregator that the options name."""
    import askance as ask

    if arguments.key is None and arguments.bearer_token_file is None:
        raise Failure(2, "usage", "expected --key or --bearer-token-file, got neither")
    return ask.connect(
        arguments.aggregator,
        key=arguments.key,
        bearer_token_file=arguments.bearer_token_file,
        ca=arguments.ca,
        plaintext=arguments.plaintext,
        **_pinned(arguments),
    )


def _pinned(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the keys that must have signed the counts of an export, where the command has any."""
    keys = getattr(arguments, "aggregator_key", None)
    return {} if keys is None else {"counts_keys": keys}
