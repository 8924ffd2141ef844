"""`accept-loss` and `repair-clock`: what only a device's owner may decide."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from askance_client.accounting import format_nats
from askance_client.cli.configuration import read_configuration
from askance_client.cli.home import DeviceHome
from askance_client.cli.ledger_repairs import accept_loss, repair_clock
from askance_client.cli.members import identities_of, read_people
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.service import system_now_s
from askance_client.service.clock import utc_text

_LOSS = """\
Charges may have been forgotten: the ledger is older than it was. If a newer copy of this folder
exists, stop here and restore that one.
Going on charges what is left of the life budget ({life} nats each) of {whom}: nothing new will be
answered unless the life budget is raised. This cannot be undone.
If only an aggregator says that the ledger is older, and no copy was ever restored, the aggregator
may lie in order to have the budget charged: do not accept the loss, and do without it instead."""

_CLOCK = """\
The clock says {now} (UTC). Check that this is right before going on.
Members whose last charge is later than that will be believed to live now. Studies that expired in
between may be answered again, and a day's budget that was spent on a future day will be there
again on the present one. The life budget is not changed. This cannot be undone."""


def accept(home: DeviceHome, path: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Charge the life budget whole for one device or for all members of a folder."""
    configuration = read_configuration(path)
    names = read_people(configuration).names
    members = [
        (name, identity.device_id)
        for name, identity in zip(names, identities_of(home.secret(), names), strict=True)
    ]
    device: bytes | None = arguments.device_id
    if device is not None:
        members = [member for member in members if member[1] == device]
        if not members:
            raise InvalidParameter(
                f"--device-id: expected the device id of a member, got {device.hex()}"
            )
    life, counter = configuration.policy.life_nano_nats, configuration.counter
    whom = "all members" if device is None else f"device {device.hex()}"
    _confirm(arguments, _LOSS.format(life=format_nats(life), whom=whom))
    charged = accept_loss(
        home.ledger_path, members, life, system_now_s(), everyone=device is None, counter=counter
    )
    return {"members": charged, "life_nano_nats": life}


def tell_accept(result: dict[str, Any]) -> str:
    """Format the number of members charged."""
    life = format_nats(result["life_nano_nats"])
    return f"loss accepted: the life budget of {life} nats is spent, members: {result['members']}"


def repair(home: DeviceHome, path: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Believe the clock again after it was once far ahead."""
    now = system_now_s()
    shown = utc_text(now, "%Y-%m-%d %H:%M:%S")
    _confirm(arguments, _CLOCK.format(now=shown))
    counter = read_configuration(path).counter
    return {"members": repair_clock(home.ledger_path, now, counter), "now_unix_s": now}


def tell_repair(result: dict[str, Any]) -> str:
    """Format the number of members concerned."""
    return f"clock repaired, members concerned: {result['members']}"


def _confirm(arguments: argparse.Namespace, risk: str) -> None:
    """Explain a risk and go on only with the owner's explicit consent: --yes, or "yes" typed.

    Raises:
        InvalidParameter: neither; nothing was changed.
    """
    if arguments.yes:
        return
    print(risk, file=sys.stderr)
    if not sys.stdin.isatty():
        raise InvalidParameter("expected --yes, to go on after reading the above, got nothing")
    print("Type yes to go on: ", end="", file=sys.stderr, flush=True)
    typed = sys.stdin.readline().strip()
    if typed != "yes":
        raise InvalidParameter(f"expected yes, got {value_text(typed)}: nothing was changed")
