"""The aggregator as a process: `serve`, `reload`, and the checks of `doctor`."""

from __future__ import annotations

import argparse
import gc
import os
import resource
import signal
import sys
import threading
import time

from askance.cli.aggregator.common import (
    add_command,
    add_configuration,
    add_listen,
    add_store,
    configuration_of,
)
from askance.cli.output import print_answer
from askance_aggregator.reports.texts import counted

_OPTIONS = (add_configuration, add_listen, add_store)
_SERVES = (
    "Serves devices and analysts until SIGTERM or Ctrl-C, then drains: what has arrived is"
    " committed, open studies go on at the next start. Logs go to stderr."
)


def add_serve(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command `serve`."""
    what = "serve devices and analysts until a signal"
    add_command(commands, "serve", _serve, what, _SERVES, *_OPTIONS)


def _serve(arguments: argparse.Namespace) -> int:
    # gRPC's own lines on stderr are no JSON; what it cannot do comes back as errors.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    configuration = configuration_of(arguments)
    from askance_aggregator.server.process.logs import logs_to
    from askance_aggregator.server.process.moved_store import MovedStore
    from askance_aggregator.server.process.process import Listening, draining_at_signals, serve
    from askance_aggregator.server.process.reloading import Rereading, process_file, process_path

    def ready(listening: Listening) -> None:
        resumed = counted(listening.studies_resumed, "open study")
        text = f"listening on {listening.address}; {resumed} resumed"
        print_answer(arguments, listening.to_json(), text)
        sys.stdout.flush()

    rereading = Rereading(threading.Event(), lambda: configuration_of(arguments))
    signal.signal(signal.SIGHUP, lambda *_: rereading.asked.set())
    with (
        logs_to(sys.stderr, configuration.log_level),
        process_file(process_path(arguments.config)),
        draining_at_signals() as stopping,
    ):
        serve(
            configuration,
            stopping=stopping,
            ready=ready,
            rereading=rereading,
            moved=MovedStore.read(arguments.config.parent),
        )
    gc.freeze()  # the process ends: a collection of what a flood has left would take a second
    return 0


_RELOADS = (
    "Checks the configuration, then lets the running aggregator read it again, as SIGHUP does:"
    " certificates, enrolment and analysts' keys, limits and log level. Streams stay open. Its log"
    " has the outcome, and names the settings that wait for a restart."
)


def add_reload(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command `reload`."""
    what = "let a running aggregator read its configuration again"
    add_command(commands, "reload", _reload, what, _RELOADS, add_configuration)


def _reload(arguments: argparse.Namespace) -> int:
    from askance_aggregator.server.process.reloading import process_path, reload_process

    configuration_of(arguments)  # a bad file is refused here, where it is read
    number = reload_process(process_path(arguments.config))
    text = f"process {number} reads {arguments.config} again; its log has the outcome"
    return print_answer(arguments, {"process": number}, text)


_CHECKS = (
    "Checks the configuration, secret files, disk, certificate, ports, descriptors, store and"
    " clock. Prints a line per check, and one of help below each that is not ok. Changes nothing."
    " Run it as the aggregator's user. Exits with 1 if a check fails; a warning alone leaves 0."
)


def add_doctor(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command `doctor`."""
    what = "check what the aggregator needs"
    add_command(commands, "doctor", _doctor, what, _CHECKS, *_OPTIONS)


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
    content, lines = results_json(results), list[str]()
    for result in results:
        lines.append(f"{result.state.value:<5} {result.check}: {result.text}")
        if result.help:
            lines.append(f"      {result.help}")
    print_answer(arguments, content, *lines)
    return 0 if content["ok"] else 1
