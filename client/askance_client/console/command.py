"""`device console`: serve the owner's page until a signal."""

from __future__ import annotations

import argparse
import json
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from askance_client.console.parts import OwnersView
from askance_client.console.server import OwnerServer
from askance_client.console.session import LINK_S, OwnerSession
from askance_client.console.site import Ask, OwnerSite, refusal

_TEXT = f"Open {{}}\nIt works once, within {LINK_S // 60} minutes. Ctrl-C ends the page."


def run_console(
    ask: Ask, csv: Callable[[dict[str, Any]], str], arguments: argparse.Namespace
) -> int:
    """Serve the page on loopback until an interrupt; print the login link once.

    Args:
      ask: the device's operations.
      csv: writes a history.
      arguments: `port`, `member` and `json` of the command.

    Returns:
      The exit code.

    Raises:
      StoreError: the port cannot be had, or the device's folder cannot be used.
      InvalidParameter: bad configuration, or a name that no member can have.
    """
    ask("policy", {"member": arguments.member})  # a folder that cannot be used fails at once
    session = OwnerSession(lambda: secrets.token_urlsafe(32), lambda: time.monotonic_ns() // 10**9)
    with OwnerServer(arguments.port) as server:
        view = OwnersView(session.form_token, arguments.member)
        site = OwnerSite(ask, csv, session, view, server.hosts)
        server.respond, server.refuse = site.respond, refusal
        link = f"http://127.0.0.1:{server.server_port}{session.link}"
        as_json = json.dumps({"link": link, "valid_s": LINK_S})
        print(as_json if arguments.json else _TEXT.format(link), flush=True)
        with suppress(KeyboardInterrupt):
            server.serve_forever()
    return 0
