"""`askance aggregator`: the operator's commands, for an aggregator that is a process."""

from __future__ import annotations

import argparse

from askance.cli.aggregator import (
    audit,
    backups,
    certificates,
    collect,
    device,
    init,
    migrate,
    processes,
    provision,
    recount,
    status,
    token,
    webhook,
)

NAME = "aggregator"
SUMMARY = "run an aggregator, which asks devices and answers analysts"
DESCRIPTION = "The commands of an aggregator's operator. Start with: askance aggregator init DIR"

_COMMANDS = (
    init.add,
    processes.add_serve,
    processes.add_reload,
    migrate.add,
    collect.add,
    backups.add_backup,
    backups.add_restore,
    backups.add_losses,
    token.add,
    provision.add,
    recount.add,
    device.add,
    certificates.add,
    status.add,
    processes.add_doctor,
    audit.add,
    webhook.add,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the operator's commands."""
    commands = parser.add_subparsers(dest="aggregator_command", metavar="COMMAND", required=True)
    for add in _COMMANDS:
        add(commands)


def run(arguments: argparse.Namespace) -> int:
    """Run one of them."""
    code: int = arguments.run_command(arguments)
    return code
