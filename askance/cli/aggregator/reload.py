"""`askance aggregator reload`: a running aggregator reads its configuration again."""

from __future__ import annotations

import argparse

from askance.cli.aggregator.common import add_command, add_configuration, configuration_of
from askance.cli.output import print_json

_RELOADS = (
    "Checks the configuration, then lets the running aggregator read it again, as SIGHUP does:"
    " certificates, enrolment and analysts' keys, limits and log level. Streams stay open. Its log"
    " has the outcome, and names the settings that wait for a restart."
)


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    reload = add_command(
        commands,
        "reload",
        _reload,
        summary="let a running aggregator read its configuration again",
        description=_RELOADS,
    )
    add_configuration(reload)


def _reload(arguments: argparse.Namespace) -> int:
    from askance_aggregator.server.process.process_file import process_path, reload_process

    configuration_of(arguments)  # a bad file is refused here, where it is read
    number = reload_process(process_path(arguments.config))
    if arguments.json:
        print_json({"process": number})
    else:
        print(f"process {number} reads {arguments.config} again; its log has the outcome")
    return 0
