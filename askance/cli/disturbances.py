"""Arguments for devices that stay away or lie, and for what goes wrong on the way."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from askance.cli.output import Failure

if TYPE_CHECKING:
    from askance_simulation.disturbances import Faults, Misbehaviour

_CHANCES = ("absent", "dropout", "offline", "liars")


def add_disturbances(parser: argparse.ArgumentParser) -> None:
    """Add the options of absences, lies and faults."""
    group = parser.add_argument_group("devices that stay away or lie, and messages that are lost")
    group.add_argument(
        "--absent", metavar="P", help="the chance that a device misses a round, for each anew"
    )
    group.add_argument(
        "--dropout", metavar="P", help="the chance, after each round, that a device stays away"
    )
    group.add_argument("--offline", metavar="P", help="the share of devices that never answer")
    group.add_argument("--liars", metavar="P", help="the share of devices that lie")
    group.add_argument(
        "--attack",
        choices=("rpa", "ria", "mga", "extreme"),
        help="what liars send: any report, an honest report of another level, the report that"
        " favours the targets most, the one that moves one value most (default: mga)",
    )
    group.add_argument(
        "--attack-target",
        type=_level,
        action="append",
        default=[],
        metavar="LEVEL",
        help="a level that liars push, 0 being the first; may be repeated (default: the last)",
    )
    group.add_argument(
        "--faults",
        type=_chances,
        metavar="NAME=P,...",
        help="with --fleet grpc: chances that a message is lost, duplicate, reorder or slow, or"
        " that its device dies (crash); the transcript is the same",
    )


def behaviour_of(arguments: argparse.Namespace) -> Misbehaviour | None:
    """Build the behaviour from the options; None if all devices are present and honest.

    Raises:
      InvalidParameter: a chance is out of range. Failure: an attack is given, and no liar.
    """
    chances = {name: getattr(arguments, name) for name in _CHANCES}
    given = {name: chance for name, chance in chances.items() if chance is not None}
    if "liars" not in given and (arguments.attack is not None or arguments.attack_target):
        raise Failure(2, "usage", "expected --liars with --attack and --attack-target, got none")
    if not given:
        return None
    from askance_simulation.disturbances import Misbehaviour

    return Misbehaviour(
        **given, attack=arguments.attack or "mga", targets=tuple(arguments.attack_target)
    )


def faults_of(arguments: argparse.Namespace) -> Faults | None:
    """Build the faults from the options; None if there are none.

    Raises:
      InvalidParameter: a name or chance that is none.
    """
    if arguments.faults is None:
        return None
    from askance_simulation.disturbances import Faults

    return Faults.named(arguments.faults)


def _level(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"expected a level, 0 or more, found {text!r}")
    return int(text)


def _chances(text: str) -> dict[str, str]:
    """Parse NAME=P,NAME=P."""
    found: dict[str, str] = {}
    for part in text.split(","):
        name, separator, chance = part.partition("=")
        if not separator or not name or not chance:
            raise argparse.ArgumentTypeError(f"expected NAME=P, found {part!r}")
        if name in found:
            raise argparse.ArgumentTypeError(f"expected each name once, found {name!r} twice")
        found[name] = chance
    return found
