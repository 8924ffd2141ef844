"""`askance aggregator audit`: the log of what callers and operators did."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from askance.cli.aggregator.common import (
    add_command,
    add_configuration,
    configuration_of,
    table_lines,
)
from askance.cli.arguments import count
from askance.cli.output import Failure, print_answer, print_json
from askance_aggregator.reports.texts import counted
from askance_client.printable import printable

if TYPE_CHECKING:
    from askance_aggregator.store import AuditEntry, AuditLog

_LOGS = (
    "The audit log has every call and command that changed something, and every refusal: who, what,"
    " when, from where, and the outcome. Each entry is bound to the one before by its digest."
)
_SHOWS = (
    f"{_LOGS} A line per action, its outcome first; one that has only begun was cut off, or goes"
    " on. With --json each entry as it is kept: an action that changes something has one for its"
    " begin and one for its end, whose began names the first."
)
_VERIFIES = (
    "Checks that no entry was changed, removed, inserted or moved. The end of the log is checked"
    " only against a digest that was noted before: --expect."
)
_DIGEST_DIGITS = 64


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands."""
    audit = commands.add_parser("audit", help="show, export or verify the log", description=_LOGS)
    subcommands = audit.add_subparsers(dest="audit_command", metavar="COMMAND", required=True)
    show = add_command(subcommands, "show", _show, "print actions, oldest first", _SHOWS)
    show.add_argument(
        "--after", type=int, metavar="N", help="after entry number N (default: the last ones)"
    )
    show.add_argument(
        "--limit", type=count, default=50, metavar="N", help="at most N of them; default 50"
    )
    export = add_command(
        subcommands,
        "export",
        _export,
        "write the whole log to a file, an entry per line, and print its last digest",
        _LOGS,
    )
    export.add_argument("file", type=Path, metavar="FILE", help="the file to write, a new one")
    what = "check the store's log, or a file that export wrote"
    verify = add_command(subcommands, "verify", _verify, what, _VERIFIES)
    verify.add_argument("file", type=Path, nargs="?", metavar="FILE", help="an exported file")
    verify.add_argument(
        "--expect",
        type=_digest,
        metavar="DIGEST",
        help="a digest that export, verify or the aggregator's log has printed",
    )
    for parser in (show, export, verify):
        add_configuration(parser)


def _show(arguments: argparse.Namespace) -> int:
    with _log(arguments) as log:
        head = log.head()
        last = 0 if head is None else head.number
        after = last - arguments.limit if arguments.after is None else arguments.after
        if arguments.json:
            entries = log.entries(max(after, 0), arguments.limit)
            print_json({"entries": [json.loads(entry.line) for entry in entries], "last": last})
            return 0
        rows = _actions(log, last, arguments.after, arguments.limit)
    heads = ("outcome", "time (UTC)", "action", "about", "changed", "caller", "from", "entry")
    print(*(table_lines(heads, map(_row, rows)) if rows else ["no entries"]), sep="\n")
    return 0


def _actions(log: AuditLog, last: int, after: int | None, limit: int) -> list[AuditEntry]:
    """Return the last entries of at most `limit` actions: the first ones after a number."""
    # Without a number, of the last actions. An action has two entries at most; its end is looked
    # for in a page more.
    from askance_aggregator.store.audit import MAX_PAGE, fold_actions

    first = max(last - 2 * limit, 0) if after is None else max(after, 0)
    found = fold_actions(log.entries(first, 2 * limit + MAX_PAGE))
    return found[-limit:] if after is None else found[:limit]


def _export(arguments: argparse.Namespace) -> int:
    from askance_aggregator.store import every_entry
    from askance_client.durable_files import write_new

    with _log(arguments) as log:
        entries = list(every_entry(log))
    lines = [json.dumps(entry.to_json()) + "\n" for entry in entries]
    try:
        write_new(arguments.file, "".join(lines).encode(), mode=0o600)
    except OSError as error:
        raise Failure(2, "bad-input", f"{arguments.file}: cannot be made: {error.strerror}") from (
            None
        )
    return _print_end(arguments, entries[-1] if entries else None)


def _verify(arguments: argparse.Namespace) -> int:
    from askance_aggregator.store import AuditBroken, every_entry, verify_entries

    try:
        if arguments.file is not None:
            last = verify_entries(_of_file(arguments.file), arguments.expect)
        else:
            with _log(arguments) as log:
                last = verify_entries(every_entry(log), arguments.expect)
    except AuditBroken as error:
        raise Failure(1, "audit-broken", str(error)) from None
    return _print_end(arguments, last)


@contextmanager
def _log(arguments: argparse.Namespace) -> Iterator[AuditLog]:
    with closing(configuration_of(arguments).store.open_beside()) as store:
        yield store.audit


def _of_file(path: Path) -> Iterator[AuditEntry]:
    from askance_aggregator.store import entry_of_json

    try:
        with path.open(encoding="utf-8") as file:
            for place, line in enumerate(file, 1):
                yield entry_of_json(line, place)
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(2, "bad-input", f"{path}: cannot be read: {error}") from None


def _print_end(arguments: argparse.Namespace, last: AuditEntry | None) -> int:
    number, digest = (0, "") if last is None else (last.number, last.digest.hex())
    text = f"{counted(number, 'entry')}, digest {digest or 'none'}"
    return print_answer(arguments, {"entries": number, "digest": digest}, text)


def _row(entry: AuditEntry) -> tuple[str, ...]:
    from askance_aggregator.server.callers.roles import action_words
    from askance_client.service.clock import utc_text

    event = entry.event
    times = f" x {event.count:,}" if event.count > 1 else ""
    role = f" ({event.role})" if event.role else ""
    return (
        printable(event.outcome) + times,
        utc_text(event.at_unix_s, "%Y-%m-%d %H:%M:%S"),
        printable(action_words(event.action)),
        printable(event.subject) or "-",
        "-" if event.changed is None else f"{event.changed:,}",
        (printable(event.who) or "not proven") + role,
        event.origin or "unknown",
        str(entry.number),
    )


def _digest(text: str) -> bytes:
    try:
        digest = bytes.fromhex(text)
    except ValueError:
        digest = b""
    if len(text) != _DIGEST_DIGITS or not digest:
        raise argparse.ArgumentTypeError(
            f"expected {_DIGEST_DIGITS} hexadecimal digits, got {text!r}"
        )
    return digest
