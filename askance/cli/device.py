"""`askance device`: the trusted base's own commands, under the whole distribution's roof."""

from __future__ import annotations

import argparse

NAME = "device"
SUMMARY = "run a device or a gateway of your own: init, enroll, run, approve, history"
DESCRIPTION = "The commands of a device's owner; `python -m askance_client` has them alone."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the device's commands."""
    from askance_client.cli.device import add_commands

    add_commands(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run one of them."""
    from askance_client.cli.device import run_command

    return run_command(arguments)
