"""`device init`, `device status`, `device history`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from askance.client.errors import AskanceError


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its name, a line about it, and what it does in a device's folder."""

    name: str
    summary: str
    run: Callable[[Path], dict[str, Any]]
    tell: Callable[[dict[str, Any]], str]


def _init(folder: Path) -> dict[str, Any]:
    from askance.client.command.home import DeviceHome

    home = DeviceHome.create(folder)
    return {"folder": str(folder), "device_id": home.identity().device_id.hex()}


def _status(folder: Path) -> dict[str, Any]:
    from askance.client.command.home import DeviceHome

    home = DeviceHome(folder)
    ledger = home.ledger()
    try:
        entries = list(ledger.history())
    finally:
        ledger.close()
    return {
        "device_id": home.identity().device_id.hex(),
        "spent_nano_nats": sum(entry.nano_nats for entry in entries),
        "answers": len(entries),
        "studies": len({entry.study_digest for entry in entries}),
    }


def _history(folder: Path) -> dict[str, Any]:
    from askance.client.command.home import DeviceHome

    ledger = DeviceHome(folder).ledger()
    try:
        return {
            "entries": [
                {
                    "day": entry.day,
                    "study": entry.study_digest.hex(),
                    "request": entry.request_digest.hex(),
                    "nano_nats": entry.nano_nats,
                }
                for entry in ledger.history()
            ]
        }
    finally:
        ledger.close()


def _tell_status(result: dict[str, Any]) -> str:
    from askance.client.accounting import format_nats

    return (
        f"device {result['device_id']}: {format_nats(result['spent_nano_nats'])} nats spent on"
        f" {result['answers']} answers to {result['studies']} studies"
    )


def _tell_history(result: dict[str, Any]) -> str:
    from askance.client.accounting import format_nats

    lines = ["day      study              request            nats"]
    lines += [
        f"{entry['day']:<8} {entry['study'][:16]:<18} {entry['request'][:16]:<18} "
        f"{format_nats(entry['nano_nats'])}"
        for entry in result["entries"]
    ]
    return "\n".join(lines)


COMMANDS = (
    Command(
        "init",
        "make a device's identity and its empty ledger in a folder",
        _init,
        lambda result: f"device {result['device_id']} in {result['folder']}",
    ),
    Command(
        "status",
        "what the device has spent in its life",
        _status,
        _tell_status,
    ),
    Command("history", "every answer given, and its cost", _history, _tell_history),
)


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Adds the commands to a parser; each sets `device` to its `Command`."""
    commands = parser.add_subparsers(dest="device_command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        sub = commands.add_parser(command.name, help=command.summary, description=command.summary)
        sub.add_argument("folder", type=Path, help="the device's folder")
        sub.add_argument("--json", action="store_true", help="print one JSON object, nothing else")
        sub.set_defaults(device=command)


def run_command(arguments: argparse.Namespace) -> int:
    """Runs the chosen command and prints its result."""
    command: Command = arguments.device
    result = command.run(arguments.folder)
    print(json.dumps(result) if arguments.json else command.tell(result))
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """The edge-only program; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m askance.client", description="The commands of a device's owner."
    )
    add_commands(parser)
    arguments = parser.parse_args(argv)
    try:
        return run_command(arguments)
    except AskanceError as error:
        if arguments.json:
            print(json.dumps({"failure": {"reason": "failed", "message": str(error)}}))
        print(f"askance: {error}", file=sys.stderr)
        return 1
