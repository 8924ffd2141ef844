"""`askance aggregator status`: an aggregator's state."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from askance.cli.aggregator.common import (
    add_command,
    add_configuration,
    add_listen,
    configuration_of,
)
from askance.cli.output import print_json
from askance_aggregator.reports.figures import delta_text, most_text
from askance_aggregator.reports.texts import counted

if TYPE_CHECKING:
    from askance_aggregator.server.process.status import Status
    from askance_aggregator.store import ReplicaEntry, RoundAnswers, WebhookFigures
    from askance_aggregator.store.register import SeenDevices


_ASKS = (
    "Reads the state of the store and of the replicas that share it, and asks the process that"
    " listens for its own."
)
# Entries that are shown otherwise.
_NESTED = ("serving", "address", "replicas", "seen", "rounds", "webhooks", "outer", "counts_key")
_OF_PROCESS = ("reports", "failures_in_a_row", "commit_failures", "certificate_ends_unix_s")


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    what = "print the aggregator's state"
    add_command(commands, "status", _status, what, _ASKS, add_configuration, add_listen)


def _status(arguments: argparse.Namespace) -> int:
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    configuration = configuration_of(arguments)
    from askance_aggregator.server.process.status import status

    found = status(configuration)
    if arguments.json:
        print_json(found.to_json())
        return 0
    print(f"{found.address}: {'serving' if found.serving else 'not serving'}{_why(found)}")
    for name, value in found.to_json().items():
        if name not in _NESTED and value is not None:
            whose = "this process's " if found.replicas and name in _OF_PROCESS else ""
            print(f"  {whose}{status_line(name, value)}{_scope(found, name)}")
        elif name == "oldest_round_s" and found.open_rounds == 0:
            print("  oldest round: none")
    for line in silence_lines(found.seen, found.rounds):
        print(f"  {line}")
    for replica in found.replicas:
        print(f"  {replica_line(replica)}")
    for webhook in found.webhooks:
        print(f"  {webhook_line(webhook)}")
    if found.outer is not None:
        print(f"  {outer_line(found.outer)}")
    if found.counts_key is not None:
        print(f"  exports are signed by: {found.counts_key}")
    return 0


def status_line(name: str, value: int | str | Mapping[str, int]) -> str:
    """Format an entry of a status: a date in UTC, a number with its unit last, a text, or counts.

    Args:
        name: the entry's key; the ending `_unix_s` means Unix seconds, `_s` seconds.
        value: a whole number, a text, or numbers by name.
    """
    from askance_client.service.clock import utc_text

    if isinstance(value, str):
        return f"{name.replace('_', ' ')}: {value}"
    if not isinstance(value, int):
        return f"{name.replace('_', ' ')}: {_counts(value)}"
    if name.endswith("_unix_s"):
        return f"{name.removesuffix('_unix_s').replace('_', ' ')}: {utc_text(value)}"
    shown = f"{value:,} s" if name.endswith("_s") else f"{value:,}"
    return f"{name.removesuffix('_s').replace('_', ' ')}: {shown}"


def silence_lines(seen: Sequence[SeenDevices], rounds: Sequence[RoundAnswers]) -> Iterator[str]:
    """Yield lines on all devices: by their last call, and by what they owe to each open round."""
    for one in seen:
        if not one.tag:
            yield (
                f"last call: {one.today:,} today, {one.week:,} within 7 days, {one.month:,} within"
                f" 30 days, {one.never:,} never, of {counted(one.devices, 'device')}"
            )
    for row in rounds:
        if not row.tag:
            yield (
                f"round {row.number + 1} of {row.study}: {row.answered:,} of"
                f" {counted(row.asked, 'device')} answered, {row.silent:,} connected and silent,"
                f" {row.away:,} away"
            )


def replica_line(replica: ReplicaEntry) -> str:
    """Format a replica: its name, address, age, counts, and what it drives."""
    drives = ", ".join(digest[:16] for digest in replica.drives) or "no study"
    seen = f"seen {replica.seen_s:,.0f} s ago"
    counts = _replica_counts(replica)
    where = replica.address or "starting"
    return f"replica {replica.name}: {where}, {seen}, {counts}, drives {drives}"


def _replica_counts(replica: ReplicaEntry) -> str:
    if replica.counts is None:
        return "no counts yet"
    counts = f"{replica.counts.connected:,} connected, {replica.counts.reports:,} reports accepted"
    return counts if replica.is_counted else f"not counted (then {counts})"


def _scope(found: Status, name: str) -> str:
    """The replicas of which a line is the sum."""
    if name != "connected" or not found.replicas:
        return ""
    counted = sum(replica.is_counted for replica in found.replicas)
    return f", at {counted:,} of {len(found.replicas):,} replicas"


def webhook_line(webhook: WebhookFigures) -> str:
    """Format the queue of a webhook: ends by state, the oldest that waits, and the last error."""
    waits = f", the oldest for {webhook.oldest_pending_s:,} s" if webhook.pending else ""
    error = f"; last error: {webhook.last_error}" if webhook.last_error else ""
    counts = f"{webhook.pending:,} pending{waits}, {webhook.failed:,} failed"
    return f"webhook {webhook.receiver}: {counts}, {webhook.delivered:,} delivered{error}"


def outer_line(outer: Mapping[str, Any]) -> str:
    """Format the outer account: what readers of all tallies learn of a user, at most."""
    from askance_client.service.clock import utc_text

    since = utc_text(outer["began_unix_s"])
    counts = f"{counted(outer['users'], 'user')} of {counted(outer['releases'], 'tally')}"
    head = f"towards readers of tallies: {counts} since {since}"
    waiting = f"; {outer['waiting']:,} not counted yet" if outer["waiting"] else ""
    if outer["epsilon"] is None:
        return f"{head}, the local epsilons alone{waiting}"
    late = " (more users are enrolled than it was fixed for)" if outer["late"] else ""
    return (
        f"{head}, epsilon at most {most_text(outer['epsilon'])}, for half of them at most"
        f" {most_text(outer['median'])}, at delta {delta_text(outer['delta'])}{late};"
        f" {counted(outer['local_only'], 'user')} with the local epsilon alone{waiting}"
    )


def _why(found: Status) -> str:
    """The failures for which a running aggregator does not serve."""
    failing = [kind for kind, count in (found.failures_in_a_row or {}).items() if count]
    return f" (failing: {', '.join(failing)}; see its log)" if failing else ""


def _counts(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in numbers.items() if number) or "none"
