"""`askance aggregator collect`: deletion of what ended studies left, while no aggregator runs."""

from __future__ import annotations

import argparse
import time
from contextlib import closing

from askance.cli.aggregator.common import (
    add_command,
    add_configured_store,
    configuration_of,
    recorded,
)
from askance.cli.output import print_answer
from askance_aggregator.reports.texts import counted

_COLLECTS = (
    "Deletes the reports and results of ended studies that are due by the days that they sign or"
    " [keep] of the configuration states, completes deletions that were interrupted, and forgets"
    " devices that have lapsed ([devices]). Open studies are not touched. A running aggregator does"
    " this by itself, at every collect_every_s."
)


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    what = "delete reports and results that are due"
    add_command(commands, "collect", _collect, what, _COLLECTS, add_configured_store)


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
        lapse_after_days = configuration.devices.lapse_after_days
        found = Collector(
            store, configuration.keep, system_now_s, pause, lapse_after_days
        ).collect()
    content = {"reports_of": found.reports_of, "results_of": found.results_of}
    lines = [
        f"deleted the reports of {counted(found.reports_of, 'study')}",
        f"deleted the results of {counted(found.results_of, 'study')}",
    ]
    if lapse_after_days is not None:
        content["devices"] = found.devices
        lines.append(f"forgot {counted(found.devices, 'device')} that had lapsed")
    return print_answer(arguments, content, *lines)
