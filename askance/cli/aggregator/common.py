"""Options that the operator's commands share, and the configuration that these name."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from askance.cli.arguments import count
from askance.cli.output import Failure

if TYPE_CHECKING:
    from askance_aggregator.server.process.configuration import Configuration
    from askance_aggregator.server.process.tokens import EnrolmentToken
    from askance_aggregator.store import Store, StoreLocation
    from askance_client.addresses import Address

_STORE_HELP = (
    "the store, in place of the configuration's: sqlite:///FILE or"
    " postgresql://USER@HOST:PORT/DATABASE (its password in a file)"
)


def add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    run_command: Callable[[argparse.Namespace], int],
    summary: str,
    description: str,
    *options: Callable[[argparse.ArgumentParser], None],
) -> argparse.ArgumentParser:
    """Add a command with the options that all have and these, and return its parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=summary, description=description
    )
    for option, what in (
        ("--json", "print one JSON object, nothing else"),
        ("--debug", "on an error, print the traceback"),
    ):
        # Suppressed, so that the same option before the command's name is not undone.
        parser.add_argument(option, action="store_true", default=argparse.SUPPRESS, help=what)
    parser.set_defaults(run_command=run_command)
    for add in options:
        add(parser)
    return parser


def add_configuration(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the configuration."""
    parser.add_argument(
        "--config",
        type=Path,
        default=Path("aggregator.toml"),
        metavar="FILE.toml",
        help="the configuration; default ./aggregator.toml",
    )


def add_listen(parser: argparse.ArgumentParser) -> None:
    """Add the option that replaces the address."""
    parser.add_argument(
        "--listen", metavar="HOST:PORT", help="the address, in place of the configuration's"
    )


def add_store(parser: argparse.ArgumentParser) -> None:
    """Add the option that replaces the store."""
    parser.add_argument("--store", metavar="URL", help=_STORE_HELP)


def add_configured_store(parser: argparse.ArgumentParser) -> None:
    """Add the options that name the configuration and replace its store."""
    add_configuration(parser)
    add_store(parser)


def read_id(text: str) -> bytes:
    """Read an id, in hexadecimal."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise Failure(2, "usage", f"id: expected hexadecimal digits, got {text!r}") from None


def day_text(day: int | None) -> str | None:
    """Format a day since 1970, UTC, as a date; None stays None."""
    from askance_client.service.clock import utc_text

    return None if day is None else utc_text(day * 86_400, "%Y-%m-%d")


def table_lines(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    """Format rows below their heads, each column as wide as its widest cell."""
    texts = [list(map(cell_text, row)) for row in (heads, *rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in texts]


def cell_text(value: object) -> str:
    """Format a value in a table: a list by its words, and a dash where there is none."""
    text = " ".join(value) if isinstance(value, list) else str(value)
    return "-" if value is None or not text else text


def add_token_terms(parser: argparse.ArgumentParser) -> None:
    """Add the options of an enrolment token: its end, and the tags of its devices."""
    parser.add_argument(
        "--days", type=count, default=7, metavar="D", help="days until the token expires; default 7"
    )
    parser.add_argument(
        "--tag",
        action="append",
        default=[],
        metavar="TAG",
        help="a tag of the devices that it enrolls: WORD or KEY=VALUE; may be given several times",
    )


def issued_token(arguments: argparse.Namespace, configuration: Configuration) -> EnrolmentToken:
    """Return a new enrolment token for the devices and days of the options; it is not kept yet."""
    from askance_aggregator.clock import system_now_s
    from askance_aggregator.server.process.tokens import read_tokens

    if configuration.enrolment_key is None:
        raise Failure(2, "bad-input", f"{arguments.config}: expected a table enrolment, got none")
    tokens = read_tokens(configuration.enrolment_key, system_now_s)
    return tokens.issue(arguments.devices, arguments.days)


def configuration_of(arguments: argparse.Namespace) -> Configuration:
    """Read the configuration that the options name."""
    from askance_aggregator.server.process.configuration import read_configuration
    from askance_aggregator.store import store_location

    address = getattr(arguments, "listen", None)
    listen = None if address is None else address_of(address)
    url = getattr(arguments, "store", None)
    try:
        store = None if url is None else store_location(url)
    except ValueError as error:
        raise Failure(2, "usage", f"--store: {error}") from None
    return read_configuration(arguments.config, listen=listen, store=store)


def address_of(text: str) -> Address:
    """Read the option's address."""
    from askance_client.addresses import Address

    try:
        return Address.of(text)
    except ValueError as error:
        raise Failure(2, "usage", f"--listen: {error}") from None


@dataclass(slots=True)
class RecordedCommand:
    """Command that is entered into the audit log.

    Args:
      changed: devices and gateways that it changed, set by what carries it out.
      began: number of its first entry; 0: none is written yet.
    """

    action: str
    subject: str
    changed: int | None = None
    began: int = 0


@contextmanager
def recorded_at(location: StoreLocation, action: str, subject: str) -> Iterator[RecordedCommand]:
    """Record a command as `recorded` does, with the store open for the two entries only.

    The command itself may open the store alone.
    """
    command = RecordedCommand(action, subject)
    with _recorded(lambda outcome: _note_at(location, command, outcome)):
        yield command


def note_command(location: StoreLocation, action: str, subject: str, outcome: str) -> None:
    """Append a command's entry to the audit log of a store that is opened for it.

    `outcome` is "begun", "done" or "failed: WORD" (see `record_command`).
    """
    _note_at(location, RecordedCommand(action, subject), outcome)


def _note_at(location: StoreLocation, command: RecordedCommand, outcome: str) -> None:
    with closing(location.open_beside()) as store:
        _note(store, command, outcome)


@contextmanager
def recorded(store: Store, action: str, subject: str) -> Iterator[RecordedCommand]:
    """Enter a command into the store's audit log before it is carried out, and its outcome after.

    Args:
      store: what the command changes.
      action: the command's words, as "device revoke".
      subject: what it is about, without a user's name or value.
    """
    command = RecordedCommand(action, subject)
    with _recorded(lambda outcome: _note(store, command, outcome)):
        yield command


def _note(store: Store, command: RecordedCommand, outcome: str) -> None:
    from askance_aggregator.clock import system_now_s
    from askance_aggregator.server.callers.recorder import record_command

    number = record_command(
        store.audit,
        command.action,
        command.subject,
        now_s=system_now_s,
        outcome=outcome,
        changed=command.changed,
        began=command.began,
    )
    command.began = command.began or number


@contextmanager
def _recorded(note: Callable[[str], None]) -> Iterator[None]:
    from askance_client.errors import AskanceError

    note("begun")
    try:
        yield
    except (AskanceError, Failure) as error:
        reason = error.reason if isinstance(error, Failure) else type(error).__name__
        note(f"failed: {reason}")
        raise
    note("done")
