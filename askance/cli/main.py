"""The program: find the command, run it, and say what went wrong in one line."""

from __future__ import annotations

import argparse
import atexit
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from askance.cli import (
    aggregator,
    amplification,
    console,
    demo,
    device,
    plan,
    schema,
    simulate,
    standard_output,
    study,
    sweep,
    verify,
    version,
)
from askance.cli.output import Failure, fail
from askance.cli.parameters import first_positional
from askance.cli.standard_output import named_output
from askance_client.garbage_collection import rare_collections
from askance_client.version import __version__

COMMANDS = (
    demo,
    simulate,
    sweep,
    plan,
    schema,
    verify,
    amplification,
    aggregator,
    study,
    console,
    device,
    version,
)

GROUP = "askance.commands"
"""Group of entry points: modules of other packages that are commands, like those of `COMMANDS`."""

_REQUIRED = "the following arguments are required: "  # the start of argparse's message

_SPACES = " (quote a name that has spaces)"
_NO_LEARNER = "expected a learner's name, got none (see askance simulate --list)"

_EPILOG = (
    "Every command has its own --help. Start with: askance simulate frequency --data census"
    " --column education --epsilon 1"
)


class _Parser(argparse.ArgumentParser):
    """Parser that raises its errors, so that they can be printed as JSON too."""

    # It accepts no abbreviations, which a later option could make ambiguous.

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = action.choices
        if choices is not None and value not in choices:
            from askance_client.printable import unknown_text

            raise argparse.ArgumentError(action, unknown_text(value, map(str, choices)))

    def error(self, message: str) -> NoReturn:
        missing = message.removeprefix(_REQUIRED)
        if missing == "COMMAND":
            (commands,) = (a for a in self._actions if isinstance(a, argparse._SubParsersAction))
            message = f"expected one of the commands {', '.join(commands.choices)}, got none"
        elif missing != message:
            message = f"expected {missing}, got none"
        raise Failure(2, "usage", f"{message} (see {self.prog} --help)")


def parser(words: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """Build the parser of a command line.

    Args:
        words: the command line. Arguments are added for its command only, which saves a third of
            the time of `askance --help`, and with the parameters of the learner that it names.
            None: arguments of all commands, without parameters of learners.
    """
    chosen = None if words is None else next((w for w in words if not w.startswith("-")), "")
    top = _Parser(
        prog="askance",
        description="Learn from users' data while it stays on their devices.",
        epilog=_EPILOG,
    )
    top.add_argument("--version", action="version", version=f"askance {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in _commands(chosen):
        sub = commands.add_parser(
            command.NAME, help=command.SUMMARY, description=command.DESCRIPTION
        )
        if chosen in (None, command.NAME):
            command.add_arguments(sub)
        sub.add_argument("--json", action="store_true", help="print one JSON object, nothing else")
        sub.add_argument("--debug", action="store_true", help="on an error, print the traceback")
        sub.set_defaults(run=command.run)
        # Of a learner: its options include the learner's parameters.
        if words is not None and chosen == command.NAME and hasattr(command, "add_parameters"):
            command.add_parameters(sub, words[words.index(chosen) + 1 :])
    return top


def _commands(chosen: str | None) -> Iterator[Any]:
    """List the commands; those of entry points only if the chosen one is not among ours."""
    yield from COMMANDS
    if all(chosen != command.NAME for command in COMMANDS):
        from importlib.metadata import entry_points

        for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
            yield point.load()


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    # What is alive at exit goes with the process: a search for garbage in it would find nothing.
    atexit.register(gc.freeze)
    # numpy's BLAS threads wait for work in a loop, .2 s of the processor after an import.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")  # 2^4 cycles, the least
    if "_ARGCOMPLETE" in os.environ:
        _complete()
    words = list(sys.argv[1:] if argv is None else argv)
    as_json, debug = "--json" in words, "--debug" in words
    try:
        with _ended_in_order(), named_output(), rare_collections():
            arguments = _parsed(words)
            code: int = arguments.run(arguments)
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # as rich ends a program
            return 0
        raise
    except KeyboardInterrupt:
        return fail(Failure(130, "interrupted", "interrupted"), as_json=as_json)
    except OSError as error:
        of_output = error.filename == standard_output.NAME
        if of_output and isinstance(error, BrokenPipeError):
            return 0  # its reader has all that it wants
        if debug:
            raise
        return fail(Failure.of(error), as_json=as_json and not of_output)
    except Exception as error:
        if debug:
            raise
        return fail(Failure.of(error), as_json=as_json)
    return code


def _complete() -> None:
    """Answer the shell that asks for completions of a command line, and end the process."""
    # The shell's hook is argcomplete's (`register-python-argcomplete askance`). The word that is
    # being typed is not part of what the parser is built from.
    try:
        import argcomplete
    except ImportError:  # the hook belongs to another environment
        return
    line = os.environ.get("COMP_LINE", "")[: int(os.environ.get("COMP_POINT", "0"))]
    words = line.split()[1:]
    argcomplete.autocomplete(parser(words if line.endswith(" ") else words[:-1]))


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    """Parse a command line; an option that there is none of is refused with the nearest name."""
    top = parser(words)
    arguments, unknown = top.parse_known_args(words)
    called, learner = _called(top, arguments), getattr(arguments, "learner", None)
    arguments.called = " ".join(filter(None, (called.prog, _text(learner))))
    if unknown:
        if learner is not None and first_positional(called, words[1:]) is None:
            raise Failure(2, "usage", _NO_LEARNER)
        nearest = _meant(unknown[0], called, arguments)
        raise Failure(
            2,
            "usage",
            f"unrecognized arguments: {' '.join(unknown)}{nearest} (see {arguments.called} --help)",
        )
    return arguments


def _meant(word: str, called: argparse.ArgumentParser, arguments: argparse.Namespace) -> str:
    """Format the option that an unknown word was meant as, as a question in brackets."""
    from askance_client.printable import nearest_text

    if not word.startswith("-"):
        if not hasattr(arguments, "data"):
            return ""
        return _SPACES if arguments.data is not None else f" (did you mean --data {word}?)"
    name, options = word.partition("=")[0], called._option_string_actions
    return nearest_text(name, [one for one in options if one.startswith(name)] or options)


def _called(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> Any:
    """Return the parser of the command that was called, such as that of `study submit`."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            name = getattr(arguments, action.dest)  # None: `aggregator token` itself
            return parser if name is None else _called(action.choices[name], arguments)
    return parser


def _text(learner: str | list[str] | None) -> str | None:
    """Return the learner of a command line as it is written."""
    return ",".join(learner) if isinstance(learner, list) else learner


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Make SIGTERM end a command as Ctrl-C does: temporary files are removed, calls are ended."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
