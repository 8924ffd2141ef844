"""`askance aggregator losses`: answers that a restored store has not."""

from __future__ import annotations

import argparse
from contextlib import closing

from askance.cli.aggregator.common import (
    add_command,
    add_configuration,
    add_store,
    configuration_of,
)
from askance.cli.output import print_json
from askance_aggregator.reports.texts import counted

_COUNTS = (
    "Counts the answers that devices were charged for after the backup and that the restored store"
    " has not, by the numbers of later reports. A device that has not answered since the"
    " restoration is not counted yet. All reports are read; stop an aggregator on SQLite first."
)


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    losses = add_command(
        commands,
        "losses",
        _losses,
        summary="count answers that were lost by a restoration",
        description=_COUNTS,
    )
    add_configuration(losses)
    add_store(losses)


def _losses(arguments: argparse.Namespace) -> int:
    from askance_aggregator.studies.losses import losses
    from askance_client.service.clock import utc_text

    with closing(configuration_of(arguments).store.open_to_read()) as store:
        found = losses(store)
    if arguments.json:
        print_json(
            {
                "backup_unix_s": found.backup_unix_s or None,
                "devices": found.devices,
                "answers": found.answers,
            }
        )
    elif not found.backup_unix_s:
        print("no backup was restored into this store")
    else:
        since = utc_text(found.backup_unix_s)
        what = f"{counted(found.answers, 'answer')} of {counted(found.devices, 'device')}"
        print(f"after the backup of {since}: {what} charged, and not in this store")
    return 0
