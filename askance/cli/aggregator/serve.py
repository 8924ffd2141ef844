"""`askance aggregator serve`: the aggregator as a process."""

from __future__ import annotations

import argparse
import gc
import os
import signal
import sys
import threading

from askance.cli.aggregator.common import (
    add_command,
    add_configuration,
    add_listen,
    add_store,
    configuration_of,
)
from askance.cli.output import print_json
from askance_aggregator.reports.texts import counted

_SERVES = (
    "Serves devices and analysts until SIGTERM or Ctrl-C, then drains: what has arrived is"
    " committed, open studies go on at the next start. Logs go to stderr."
)


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    serve = add_command(
        commands,
        "serve",
        _serve,
        summary="serve devices and analysts until a signal",
        description=_SERVES,
    )
    add_configuration(serve)
    add_listen(serve)
    add_store(serve)


def _serve(arguments: argparse.Namespace) -> int:
    # gRPC's own lines on stderr are no JSON; what it cannot do comes back as errors.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    configuration = configuration_of(arguments)
    from askance_aggregator.server.process.logs import logs_to
    from askance_aggregator.server.process.process import (
        Listening,
        draining_at_signals,
        serve,
    )
    from askance_aggregator.server.process.process_file import process_file, process_path
    from askance_aggregator.server.process.reloading import Rereading

    def ready(listening: Listening) -> None:
        if arguments.json:
            print_json(listening.to_json())
        else:
            resumed = counted(listening.studies_resumed, "open study")
            print(f"listening on {listening.address}; {resumed} resumed")
        sys.stdout.flush()

    rereading = Rereading(threading.Event(), lambda: configuration_of(arguments))
    signal.signal(signal.SIGHUP, lambda *_: rereading.asked.set())
    with (
        logs_to(sys.stderr, configuration.log_level),
        process_file(process_path(arguments.config)),
        draining_at_signals() as stopping,
    ):
        serve(configuration, stopping=stopping, ready=ready, rereading=rereading)
    gc.freeze()  # the process ends: a collection of what a flood has left would take a second
    return 0
