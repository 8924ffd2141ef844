"""`askance aggregator doctor`: checks before an aggregator serves, or while it does."""

from __future__ import annotations

import argparse
import os
import resource
import time

from askance.cli.aggregator.common import (
    add_command,
    add_configuration,
    add_listen,
    add_store,
    configuration_of,
)
from askance.cli.output import print_json

_CHECKS = (
    "Checks the configuration, secret files, disk, certificate, ports, descriptors, store and"
    " clock. Prints a line per check, and one of help below each that is not ok. Changes nothing."
    " Run it as the aggregator's user. Exits with 1 if a check fails; a warning alone leaves 0."
)


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    doctor = add_command(
        commands,
        "doctor",
        _doctor,
        summary="check what the aggregator needs",
        description=_CHECKS,
    )
    add_configuration(doctor)
    add_listen(doctor)
    add_store(doctor)


def _doctor(arguments: argparse.Namespace) -> int:
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from askance_aggregator.server.process.doctor import examine, results_json

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    results = examine(
        arguments.config,
        lambda: configuration_of(arguments),
        now_s=time.time,
        descriptors=None if hard == resource.RLIM_INFINITY else hard,
    )
    told = results_json(results)
    if arguments.json:
        print_json(told)
    else:
        for result in results:
            print(f"{result.state.value:<5} {result.check}: {result.text}")
            if result.help:
                print(f"      {result.help}")
    return 0 if told["ok"] else 1
