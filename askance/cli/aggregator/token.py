"""`askance aggregator token`: tokens that enrol devices."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from askance.cli.aggregator import common
from askance.cli.arguments import add_out, check_new, count
from askance.cli.output import Failure, print_answer, print_json, print_written
from askance.cli.progress import working
from askance_aggregator.reports.texts import counted

if TYPE_CHECKING:
    from askance_aggregator.store.register import TokenEntry

_PRINTS = (
    "Makes a token with which devices may be enrolled. Every holder of the token can use it: --out"
    " writes it to a file that only its owner may read. token list and token revoke ID show the"
    " tokens and refuse one."
)
_LISTS = "Lists enrolment tokens: those that were printed, and older ones that were used."
_REVOKES = "Refuses an enrolment token from now on. Devices that it has enrolled stay."


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    what = "make a token that enrols devices"
    token = common.add_command(commands, "token", _token, what, _PRINTS, common.add_configuration)
    token.add_argument(
        "--devices",
        type=count,
        default=1,
        metavar="N",
        help="number of devices that the token enrols; default 1",
    )
    common.add_store(token)
    common.add_token_terms(token)
    add_out(
        token, "FILE", "writes the token to a new file, readable by its owner only, not to stdout"
    )
    below = token.add_subparsers(dest="token_command", metavar="COMMAND")
    lists = common.add_command(below, "list", _list, "list enrolment tokens", _LISTS)
    revokes = common.add_command(below, "revoke", _revoke, "refuse an enrolment token", _REVOKES)
    for parser in (lists, revokes):
        # Suppressed, so that the same option before the command's name is not undone.
        for option, metavar in (("--config", "FILE.toml"), ("--store", "URL")):
            kind = Path if option == "--config" else str
            parser.add_argument(
                option, type=kind, default=argparse.SUPPRESS, metavar=metavar, help="as of token"
            )
    revokes.add_argument("id", metavar="ID", help="the token's id, as token list prints it")


def _token(arguments: argparse.Namespace) -> int:
    check_new(arguments)
    configuration = common.configuration_of(arguments)
    token = common.issued_token(arguments, configuration)
    with (
        working("writing the token to the store"),
        closing(configuration.store.open_beside()) as store,
        common.recorded(store, "token", counted(token.devices, "device")),
    ):
        store.register.keep_token(token.token_id, token.devices, token.ends_unix_s, arguments.tag)
    if arguments.out is not None:
        _write(arguments.out, token.text)
    if arguments.json:
        print_json(
            {
                **({"token": token.text} if arguments.out is None else {}),
                "id": token.token_id.hex(),
                "devices": token.devices,
                "ends_unix_s": token.ends_unix_s,
                "tags": sorted(set(arguments.tag)),
            }
        )
        return 0
    if arguments.out is None:
        print(token.text)
    what = f"{counted(token.devices, 'device')}, for {counted(arguments.days, 'day')}"
    print(f"enrolls {what}", file=sys.stderr)
    return 0


def _write(path: Path, text: str) -> None:
    """Write a token to a file that only its owner may read, whatever was there before."""
    from askance_client.durable_files import write_new

    try:
        path.unlink(missing_ok=True)  # with --force: its mode and its links may be of others
        write_new(path, f"{text}\n".encode(), mode=0o600)
    except OSError as error:
        raise Failure(2, "bad-input", f"--out: {path}: cannot be made: {error.strerror}") from None
    print_written(path)


def _list(arguments: argparse.Namespace) -> int:
    from askance_aggregator.clock import system_now_s

    with closing(common.configuration_of(arguments).store.open_beside()) as store:
        found = store.register.tokens()
    now_s = system_now_s()
    entries = [
        {
            "id": one.token_id.hex(),
            "state": _state(one, now_s),
            "devices": one.devices,
            "limit": one.limit,
            "ends": None if one.ends_unix_s is None else common.day_text(one.ends_unix_s // 86_400),
            "tags": list(one.tags),
        }
        for one in found
    ]
    heads = ("id", "state", "devices", "limit", "ends", "tags")
    lines = common.table_lines(heads, [one.values() for one in entries])
    return print_answer(arguments, {"tokens": entries}, *lines)


def _state(token: TokenEntry, now_s: int) -> str:
    if token.revoked:
        return "revoked"
    if token.ends_unix_s is not None and token.ends_unix_s <= now_s:
        return "expired"
    return "full" if token.limit is not None and token.devices >= token.limit else "active"


def _revoke(arguments: argparse.Namespace) -> int:
    with (
        closing(common.configuration_of(arguments).store.open_beside()) as store,
        common.recorded(store, "token revoke", "1 token"),
    ):
        store.register.revoke_token(common.read_id(arguments.id))
    return print_answer(arguments, {"revoked": arguments.id}, f"revoked: {arguments.id}")
