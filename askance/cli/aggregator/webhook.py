"""`askance aggregator webhook`: queues of results that are sent by themselves."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING

from askance.cli.aggregator.common import (
    add_command,
    add_configured_store,
    configuration_of,
    recorded,
    table_lines,
)
from askance.cli.output import Failure, print_answer
from askance_aggregator.reports.texts import counted

if TYPE_CHECKING:
    from askance_aggregator.store import Store

_SUMMARY = "list webhooks, and try, send again or forget what they have not taken"
_DESCRIPTION = (
    "Webhooks are the receivers of [[webhooks]] in the configuration. The commands open the store"
    " beside the aggregator, which may run."
)
_TESTS = (
    "Sends a message of the type webhook.test, signed as all are, from this machine and now, and"
    " prints the answer. Nothing is queued."
)
_RETRIES = "Ends that were given up, and those that wait for their next try, are due at once."
_FORGETS = (
    "Removes what is queued for a receiver, undelivered ends too. A receiver that is configured"
    " still gets the ends of later studies."
)


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands."""
    webhook: argparse.ArgumentParser = commands.add_parser(
        "webhook", help=_SUMMARY, description=_DESCRIPTION
    )
    below = webhook.add_subparsers(dest="webhook_command", metavar="COMMAND", required=True)
    what = "list webhooks: pending, failed, delivered, last error"
    add_command(below, "list", _list, what, f"{what.capitalize()}.", add_configured_store)
    for name, run, summary, description in (
        ("test", _test, "send a test message now", _TESTS),
        ("retry", _retry, "send again what was not delivered", _RETRIES),
        ("forget", _forget, "remove what is queued for a receiver", _FORGETS),
    ):
        parser = add_command(below, name, run, summary, description, add_configured_store)
        parser.add_argument("name", metavar="NAME", help="the receiver, as list prints it")


def _list(arguments: argparse.Namespace) -> int:
    configuration = configuration_of(arguments)
    with closing(configuration.store.open_to_look()) as store:
        store.webhooks.announce_to([one.receiving for one in configuration.webhooks])
        found = store.webhooks.figures()
    configured = {one.name for one in configuration.webhooks}
    content = [{**asdict(one), "configured": one.receiver in configured} for one in found]
    heads = ("receiver", "pending", "failed", "delivered", "oldest", "last error")
    rows = [
        (
            one.receiver + ("" if one.receiver in configured else " (not configured)"),
            *(f"{number:,}" for number in (one.pending, one.failed, one.delivered)),
            f"{one.oldest_pending_s:,} s" if one.pending else "-",
            one.last_error,
        )
        for one in found
    ]
    lines = (
        table_lines(heads, rows) if rows else ["no webhook: add [[webhooks]] to the configuration"]
    )
    return print_answer(arguments, {"webhooks": content}, *lines)


def _test(arguments: argparse.Namespace) -> int:
    from askance_aggregator.clock import system_now_s
    from askance_aggregator.server.webhooks.deliverer import send_test

    receivers = {one.name: one for one in configuration_of(arguments).webhooks}
    if arguments.name not in receivers:
        known = ", ".join(receivers) or "none"
        raise Failure(
            2, "usage", f"name: expected a configured webhook ({known}), got {arguments.name!r}"
        )
    error = send_test(receivers[arguments.name], system_now_s())
    if error:
        raise Failure(1, "not-delivered", f"{arguments.name}: {error}")
    content = {"receiver": arguments.name, "delivered": True}
    return print_answer(arguments, content, f"{arguments.name}: delivered")


def _retry(arguments: argparse.Namespace) -> int:
    return _change(arguments, "retry", lambda store: store.webhooks.retry(arguments.name))


def _forget(arguments: argparse.Namespace) -> int:
    return _change(arguments, "forget", lambda store: store.webhooks.forget(arguments.name))


def _change(arguments: argparse.Namespace, word: str, change: Callable[[Store], int]) -> int:
    configuration = configuration_of(arguments)
    with closing(configuration.store.open_beside()) as store:
        store.webhooks.announce_to([one.receiving for one in configuration.webhooks])
        known = [one.receiver for one in store.webhooks.figures()]
        if arguments.name not in known:
            names = ", ".join(known) or "none"
            raise Failure(2, "usage", f"name: expected one of {names}, got {arguments.name!r}")
        with recorded(store, f"webhook {word}", arguments.name) as command:
            ends = command.changed = change(store)
    done = "due now" if word == "retry" else "removed"
    text = f"{arguments.name}: {counted(ends, 'end')} of studies {done}"
    return print_answer(arguments, {"receiver": arguments.name, "ends": ends}, text)
