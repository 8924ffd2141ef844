"""`askance aggregator`: the operator's commands, for an aggregator that is a process."""

from __future__ import annotations

import argparse

from askance.cli.aggregator import (
    audit,
    backup,
    certificates,
    collect,
    device,
    doctor,
    init,
    losses,
    migrate,
    provision,
    recount,
    reload,
    restore,
    serve,
    status,
    token,
    webhook,
)

NAME = "aggregator"
SUMMARY = "run an aggregator, which asks devices and answers analysts"
DESCRIPTION = "The commands of an aggregator's operator. Start with: askance aggregator init DIR"

_COMMANDS = (
    init,
    serve,
    reload,
    migrate,
    collect,
    backup,
    restore,
    losses,
    token,
    provision,
    recount,
    device,
    certificates,
    status,
    doctor,
    audit,
    webhook,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the operator's commands."""
    commands = parser.add_subparsers(dest="aggregator_command", metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add(commands)


def run(arguments: argparse.Namespace) -> int:
    """Run one of them."""
    code: int = arguments.run_command(arguments)
    return code
