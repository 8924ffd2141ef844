"""`askance aggregator collect`: deletion of what ended studies left, while no aggregator runs."""

from __future__ import annotations

import argparse
import time
from contextlib import closing

from askance.cli.aggregator.common import (
    add_command,
    add_configuration,
    add_store,
    configuration_of,
    recorded,
)
from askance.cli.output import print_json
from askance_aggregator.reports.texts import counted

_COLLECTS = (
    "Deletes the reports and results of ended studies that are due by the days that they sign or"
    " [keep] of the configuration states, and completes deletions that were interrupted. Open"
    " studies are not touched. A running aggregator does this by itself, at every collect_every_s."
)


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    collect = add_command(
        commands,
        "collect",
        _collect,
        summary="delete reports and results that are due",
        description=_COLLECTS,
    )
    add_configuration(collect)
    add_store(collect)


def _collect(arguments: argparse.Namespace) -> int:
    from askance_aggregator.clock import system_now_s
    from askance_aggregator.server.studies import Collector

    configuration = configuration_of(arguments)

    def pause(seconds: float) -> bool:
        time.sleep(seconds)
        return False

    with (
        closing(configuration.store.open()) as store,
        recorded(store, "collect", "ended studies"),
    ):
        found = Collector(store, configuration.keep, system_now_s, pause).collect()
    if arguments.json:
        print_json({"reports_of": found.reports_of, "results_of": found.results_of})
        return 0
    print(f"deleted the reports of {counted(found.reports_of, 'study')}")
    print(f"deleted the results of {counted(found.results_of, 'study')}")
    return 0
