"""The device's commands: their arguments, and what becomes of their results."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, cast

from askance_client.cli.explanations import tell_explanation
from askance_client.cli.folder import ask
from askance_client.cli.home import DeviceHome
from askance_client.errors import AskanceError, InvalidParameter, InvalidQuery, InvalidRecord


def explanations(home: DeviceHome, path: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Explain the studies that wait, or one study or request of a folder."""
    if home.folder.is_file():
        raise InvalidParameter(
            f"{home.folder}: expected a device's folder, got a file (`askance device explain`, of"
            " the distribution askance, explains a study's file)"
        )
    given = {"name": arguments.name or "", "analyst": arguments.analyst.hex()}
    return {"explained": ask(home, path, "explain", given)}


def tell_explanations(result: dict[str, Any]) -> str:
    """Format each explanation, with an empty line between two."""
    told = [tell_explanation(entry) for entry in result["explained"]]
    return "\n\n".join(told) if told else "no study waits"


def decide(home: DeviceHome, path: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Approve or deny a study, as the command's name says."""
    return ask(home, path, arguments.device.name, _given(arguments))[0]


def tell_decision(result: dict[str, Any]) -> str:
    """Format a decision in a line."""
    until = f" until {result['until']}" if "until" in result else ""
    return f"study {result['study'][:16]}: {result['state']}{until}"


def _given(arguments: argparse.Namespace) -> dict[str, Any]:
    days = getattr(arguments, "days", None)
    given = {"study": arguments.study, "analyst": arguments.analyst.hex(), "why": arguments.why}
    return given if days is None else given | {"days": days}


Tell = Callable[[dict[str, Any]], str]
"""Formats a result for people."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its name, a line about it, its arguments; `run` gives the exit code."""

    name: str
    summary: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def _init(arguments: argparse.Namespace) -> int:
    from askance_client.cli.making import init, tell_init

    return _show(arguments, init(arguments), tell_init)


def _enroll(arguments: argparse.Namespace) -> int:
    from askance_client.cli.running import enroll, tell_enroll

    return _show(arguments, enroll(*_home_and_configuration(arguments), arguments), tell_enroll)


def _run(arguments: argparse.Namespace) -> int:
    from askance_client.cli.running import run_on, run_once, tell_once

    home, configuration = _home_and_configuration(arguments)
    if not arguments.once:
        run_on(home, configuration, as_json=arguments.json, log_file=arguments.log_file)
        return 0
    result = run_once(home, configuration, arguments.log_file)
    return _show(arguments, result, tell_once, failed=bool(result["failed"]))


def _status(arguments: argparse.Namespace) -> int:
    from askance_client.cli.report import status, tell_status

    return _show(arguments, status(*_home_and_configuration(arguments)), tell_status)


def _history(arguments: argparse.Namespace) -> int:
    from askance_client.cli.report import csv_history, history, tell_history

    tell = csv_history if arguments.csv else tell_history
    return _show(arguments, history(*_home_and_configuration(arguments)), tell)


def _explain(arguments: argparse.Namespace) -> int:
    result = explanations(*_home_and_configuration(arguments), arguments)
    return _show(arguments, result, tell_explanations)


def _decide(arguments: argparse.Namespace) -> int:
    return _show(arguments, decide(*_home_and_configuration(arguments), arguments), tell_decision)


def _console(arguments: argparse.Namespace) -> int:
    from askance_client.cli.report import csv_history
    from askance_client.console import run_console

    ask_device = partial(ask, *_home_and_configuration(arguments))
    return run_console(ask_device, csv_history, arguments)


def _verify(arguments: argparse.Namespace) -> int:
    from askance_client.cli.report import tell_verify, verify

    result = verify(*_home_and_configuration(arguments))
    return _show(arguments, result, tell_verify, failed=bool(result["violations"]))


def _doctor(arguments: argparse.Namespace) -> int:
    from askance_client.cli.doctor import examine, tell_examination

    result = examine(*_home_and_configuration(arguments))
    return _show(arguments, result, tell_examination, failed=not result["ok"])


def _accept_loss(arguments: argparse.Namespace) -> int:
    from askance_client.cli.repairing import accept, tell_accept

    return _show(arguments, accept(*_home_and_configuration(arguments), arguments), tell_accept)


def _repair_clock(arguments: argparse.Namespace) -> int:
    from askance_client.cli.repairing import repair, tell_repair

    return _show(arguments, repair(*_home_and_configuration(arguments), arguments), tell_repair)


_RECORDS = (
    "where the records are, in place of --data: csv, json, json-lines, parquet, sqlite, duckdb or"
    " directory with a path; command with its words; http://127.0.0.1:PORT/PATH; environment with a"
    " prefix"
)


def _add_init(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="the device's folder; made if need be")
    add_settings(parser)


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add the options that fill in a device's configuration."""
    for option, read, metavar, what in (
        ("--aggregator", _reads("an_address"), "HOST:PORT", "the aggregator's address"),
        ("--ca", Path, "FILE", "the authority that signed its certificate (PEM)"),
        ("--schema", Path, "FILE", "the schema of a record (TOML)"),
        ("--data", Path, "FILE", "the records, of the kind that the file's suffix tells"),
        ("--records", _reads("an_origin", "record_settings"), "KIND:WHERE", _RECORDS),
        ("--query", str, "SQL", "of sqlite and duckdb: a SELECT with the records' columns"),
        ("--row", _whole_number, "N", "one member, by the row's number from 0"),
        ("--key", str, "COLUMN", "a gateway, for all rows: the column that names members"),
        ("--life-epsilon", _reads("a_budget"), "E", "the most all studies together may cost, nats"),
        ("--day-epsilon", _reads("a_budget"), "E", "the most one UTC day may cost"),
        ("--study-epsilon", _reads("a_budget"), "E", "the most one study may cost"),
    ):
        parser.add_argument(option, type=read, metavar=metavar, help=what)
    parser.add_argument(
        "--one-person", action="store_true", help="one member, whose records are all rows"
    )
    parser.add_argument(
        "--several",
        type=_reads("a_rule", "record_settings"),
        metavar="RULE",
        help="a member's several records: refuse (default), draw one per question, or first",
    )
    parser.add_argument(
        "--rows-by-number",
        action="store_true",
        help="a gateway, for all rows, without --key: members are named by the row's number. Risk:"
        " if a row is ever inserted, removed or moved, members answer from each other's budgets,"
        " and are charged twice",
    )
    parser.add_argument(
        "--analyst",
        type=_reads("an_analyst"),
        action="append",
        default=[],
        metavar="HEX",
        help="the public key of an analyst whose studies are answered; may be repeated",
    )


def _add_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, nargs="?", help="the device's folder")
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="the device's device.toml, in place of the folder",
    )


def _add_enroll(parser: argparse.ArgumentParser) -> None:
    _add_place(parser)
    token = parser.add_mutually_exclusive_group()
    token.add_argument("--token", metavar="TEXT", help="the operator's enrolment token")
    file = "file of the token; - for standard input; default: token_file of device.toml"
    token.add_argument("--token-file", type=Path, metavar="FILE", help=file)
    wait = "wait for an aggregator that is starting, at most S seconds (default: 0)"
    parser.add_argument("--wait", type=_whole_number, default=0, metavar="S", help=wait)


def _add_run(parser: argparse.ArgumentParser) -> None:
    _add_place(parser)
    parser.add_argument(
        "--once", action="store_true", help="check in once for each member, then end"
    )
    parser.add_argument(
        "--log-file",
        type=Path,
        metavar="FILE",
        help="write the log there, not to stderr; at most 8 MiB, and three older files of it",
    )


def _add_history(parser: argparse.ArgumentParser) -> None:
    _add_place(parser)
    parser.add_argument("--csv", action="store_true", help="print a line of CSV per row")


def _add_analyst(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--analyst",
        type=_reads("an_analyst"),
        default=b"",
        metavar="HEX",
        help="the study's analyst, where two analysts have signed the same study",
    )


def _add_explain(parser: argparse.ArgumentParser) -> None:
    _add_place(parser)
    parser.add_argument(
        "name",
        nargs="?",
        metavar="STUDY",
        help="the first digits of a study, or of a request; default: all studies that wait",
    )
    _add_analyst(parser)


def _add_deny(parser: argparse.ArgumentParser) -> None:
    _add_place(parser)
    parser.add_argument("study", metavar="STUDY", help="the first digits of the study, 8 or more")
    _add_analyst(parser)
    parser.add_argument("--why", default="", metavar="TEXT", help="a note that stays on the device")


def _add_approve(parser: argparse.ArgumentParser) -> None:
    _add_deny(parser)
    parser.add_argument(
        "--days",
        type=_whole_number,
        metavar="N",
        help="the approval holds for so many days; default: consent_days, or the study's expiry",
    )


def _add_console(parser: argparse.ArgumentParser) -> None:
    _add_place(parser)
    port = "of 127.0.0.1, where the page is served; default: a free one"
    parser.add_argument("--port", type=_whole_number, default=0, metavar="N", help=port)
    member = "of a gateway: that member's own budgets and history, without decisions"
    parser.add_argument("--member", default="", metavar="NAME", help=member)
    parser.add_argument("--link", action="store_true", help="print a new link to a served page")


def _add_repair(parser: argparse.ArgumentParser) -> None:
    _add_place(parser)
    parser.add_argument("--yes", action="store_true", help="go on: the printed risk was read")


def _add_accept_loss(parser: argparse.ArgumentParser) -> None:
    _add_repair(parser)
    parser.add_argument(
        "--device-id",
        type=_device_id,
        metavar="HEX",
        help="charge this member only, as named in the log; default: all members",
    )


COMMANDS = (
    Command("init", "make a device's identity, ledger and configuration", _add_init, _init),
    Command("enroll", "make its people known to the aggregator", _add_enroll, _enroll),
    Command("run", "answer the aggregator's questions until a signal", _add_run, _run),
    Command("status", "what the device has spent in its life", _add_place, _status),
    Command("history", "every question and answer in plain words", _add_history, _history),
    Command(
        "explain", "a study or request: possible answers, loss, budgets", _add_explain, _explain
    ),
    Command("approve", "let a study be answered", _add_approve, _decide),
    Command("deny", "refuse a study from now on", _add_deny, _decide),
    Command("console", "the owner's page, in a browser on this machine", _add_console, _console),
    Command(
        "doctor",
        "check all that a device needs; exit code 1 if something is wrong",
        _add_place,
        _doctor,
    ),
    Command("verify", "check the ledger and recompute every charge", _add_place, _verify),
    Command(
        "accept-loss",
        "go on with a ledger that lost charges: spends the life budget",
        _add_accept_loss,
        _accept_loss,
    ),
    Command("repair-clock", "believe the clock after it was far ahead", _add_repair, _repair_clock),
)


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add the commands to a parser; each sets `device` to its `Command`."""
    commands = parser.add_subparsers(dest="device_command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        sub = commands.add_parser(command.name, help=command.summary, description=command.summary)
        command.add_arguments(sub)
        for option, what in (
            ("--json", "print one JSON object, nothing else"),
            ("--debug", "on an error, print the traceback"),
        ):
            # Suppressed, so that the same option before the command's name is not undone.
            sub.add_argument(option, action="store_true", default=argparse.SUPPRESS, help=what)
        sub.set_defaults(device=command)


def run_command(arguments: argparse.Namespace) -> int:
    """Run the chosen command, print its result and return its exit code."""
    # gRPC, which reads this when it is first imported, prints no lines of its own: failures come
    # back with the call and are printed once.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    command: Command = arguments.device
    return command.run(arguments)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command of the device and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in words
    if os.name != "posix":
        text = f"expected Linux or macOS, got {os.name}: files and sockets of a device need POSIX"
        return _fail(1, "unsupported", text, as_json=as_json)
    parser = _Parser(prog="python -m askance_client", description=_DESCRIPTION)
    parser.set_defaults(json=False, debug=False)
    add_commands(parser)
    try:
        return run_command(parser.parse_args(words))
    except KeyboardInterrupt:
        return _fail(130, "interrupted", "interrupted", as_json=as_json)
    except (AskanceError, OSError) as error:
        if "--debug" in words:
            raise
        code, reason = _meaning(error)
        return _fail(code, reason, " ".join(str(error).split()), as_json=as_json)


_DESCRIPTION = "The commands of a device's owner."


class Usage(AskanceError, ValueError):
    """The typed command is not valid."""


class _Parser(argparse.ArgumentParser):
    """Raises its complaints, so that they can be printed as JSON too; takes no abbreviations."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        raise Usage(f"{message} (see {self.prog} --help)")


def _fail(code: int, reason: str, message: str, *, as_json: bool) -> int:
    if as_json:
        print(json.dumps({"failure": {"reason": reason, "message": message}}))
    print(f"askance: {message}", file=sys.stderr)
    return code


def _meaning(error: Exception) -> tuple[int, str]:
    """The exit code of an error, and a word for programs."""
    if isinstance(error, Usage):
        return 2, "usage"
    if isinstance(error, InvalidParameter | InvalidQuery | InvalidRecord):
        return 2, "bad-input"
    return 1, "failed"


def _home_and_configuration(arguments: argparse.Namespace) -> tuple[DeviceHome, Path]:
    """The folder and the configuration that were named by one of the two."""
    folder: Path | None = arguments.folder
    configuration: Path | None = arguments.config
    if folder is not None and configuration is None:
        home = DeviceHome(folder)
        return home, home.configuration
    if configuration is not None and folder is None:
        return DeviceHome(configuration.parent), configuration
    if folder is None and getattr(arguments, "study", None) is not None:
        from askance_client.printable import value_text

        raise InvalidParameter(
            f"expected a folder and a study, got {value_text(arguments.study)} alone"
        )
    found = "neither" if folder is None else "both"
    raise InvalidParameter(f"expected a device's folder or --config FILE, found {found}")


def _show(arguments: argparse.Namespace, result: Any, tell: Tell, failed: bool = False) -> int:
    print(json.dumps(result) if arguments.json else tell(result))
    return int(failed)


def _reads(name: str, module: str = "configuration") -> Callable[[str], object]:
    """Return a parser of an option that reads it as `device.toml` reads the same value."""

    def read(text: str) -> object:
        settings = import_module(f"askance_client.cli.{module}")
        try:
            return cast(object, getattr(settings, name)(text))
        except InvalidParameter as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def _whole_number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"expected a whole number of 0 or more, got {text!r}")
    return int(text)


def _device_id(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise argparse.ArgumentTypeError("expected a device id in hexadecimal") from None
