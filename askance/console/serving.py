"""A console from its settings to its end."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

from askance.console.application import application
from askance.console.link import AggregatorLink
from askance.console.openid import IssuerSettings, OpenIdIssuer
from askance.console.server import ConsoleServer, ConsoleSettings
from askance.console.shared import Console
from askance_aggregator.analyst import Aggregator
from askance_aggregator.clock import system_now_s


def serve_console(
    aggregator: Aggregator,
    settings: ConsoleSettings,
    *,
    ready: Callable[[str], None],
    announce: Callable[[str], None],
    issuer: IssuerSettings | None = None,
) -> None:
    """Serve a console until SIGINT or SIGTERM.

    Args:
      aggregator: the connection, with the caller's key or token; with an issuer it has neither.
      settings: where to serve.
      ready: called once with the address, as http://HOST:PORT, when it is served.
      announce: called after that with each login link; with an issuer there is none.
      issuer: by which people log in; None: one caller logs in by a link.
    """
    server = ConsoleServer(settings)
    link = AggregatorLink(aggregator, time.monotonic)
    try:
        console = Console(
            link,
            hosts=server.hosts,
            secure=settings.certificate is not None,
            announce=announce,
            secrets=secrets.token_bytes,
            clock_s=time.monotonic,
            issuer=None if issuer is None else OpenIdIssuer(issuer, system_now_s),
        )

        def served() -> None:
            ready(console.origin)
            console.announce_link()

        server.run(application(console), served)
    finally:
        link.close()
        server.close()
