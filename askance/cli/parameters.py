"""Parameters of learners and of generated populations, as options of the command line.

`askance simulate frequency --column education` is `--set column=education`. The options of a
learner are added once its name is known, so that `askance simulate frequency --help` lists them
with their defaults and a misspelt one is refused before anything else is done.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from askance_aggregator.learners import ParameterEntry

_FILE = "FILE"

Into = Callable[["ParameterEntry"], str]
"""Destination of a parameter's option."""

Read = Callable[["ParameterEntry", str], tuple[str, Any]]
"""Reader of the (name, value) pair that an option adds to its destination."""


def first_positional(parser: argparse.ArgumentParser, words: Sequence[str]) -> str | None:
    """Return the first word that is neither an option nor the value of one; None: there is none."""
    known = parser._option_string_actions
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            return word
        action = known.get(word)
        if "=" not in word and (action is None or action.nargs != 0):
            next(rest, None)
    return None


def value_of(option: str, words: Sequence[str]) -> str | None:
    """Return the last value of an option that takes one; None: it is not given."""
    found = None
    for word, after in zip(words, [*words[1:], ""], strict=True):
        if word == option:
            found = after
        elif word.startswith(f"{option}="):
            found = word.partition("=")[2]
    return found


def add_learner_parameters(
    parser: argparse.ArgumentParser,
    words: Sequence[str],
    *,
    default_population: bool = True,
    names_in: Callable[[str], Sequence[str]] = lambda text: (text,),
    into: Into = lambda _: "set",
    read: Read | None = None,
) -> None:
    """Add the parameters of the learners that the words name, and of their populations."""
    named = first_positional(parser, words)
    if named is None:
        return
    from askance_aggregator.learners import find
    from askance_simulation.populations import CHANGES
    from askance_simulation.populations.population import entry

    learners = [find(name) for name in names_in(named)]
    for learner in learners:
        add_options(parser, f"parameters of {learner.name}", learner.parameters, into, read)
    if value_of("--data", words) is None:
        own = [learner.population for learner in learners] if default_population else []
        asked = value_of("--population", words)
        for population in dict.fromkeys([asked] if asked else filter(None, own)):
            settings = _population_entries(entry(population).parameters)
            title = f"parameters of the generated users ({population})"
            add_options(parser, title, settings, into, read)
    add_options(parser, "changes of the users", _change_entries(CHANGES), into, read)


def add_options(
    parser: argparse.ArgumentParser,
    title: str,
    entries: Iterable[ParameterEntry],
    into: Into = lambda _: "set",
    read: Read | None = None,
) -> None:
    """Add an option per parameter, in a group with a title.

    A parameter whose option the command has already is left out; --set reaches it.

    Args:
        parser: the parser of the command.
        title: heading of the group in the help text.
        entries: the parameters.
        into: destination of an option: "set", or "fix" of a sweep.
        read: maker of the pair that the destination is appended with; None: the checked text.
    """
    group = parser.add_argument_group(title)
    for entry in entries:
        option = f"--{entry.name.replace('_', '-')}"
        if option in parser._option_string_actions:
            continue
        default = "" if entry.default is None else f" (default {entry.default})"
        action = group.add_argument(
            option,
            dest=into(entry),
            action="append",
            default=argparse.SUPPRESS,
            type=_reader(entry, read or checked),
            metavar=_FILE if entry.kind.is_of_file else entry.placeholder,
            help=f"{entry.summary}{default}".replace("%", "%%"),
        )
        action.completer = _completer(entry.choices)  # type: ignore[attr-defined]  # argcomplete's


def checked(entry: ParameterEntry, text: str) -> tuple[str, str]:
    """Return the pair of a parameter and its text, once the text has the parameter's form."""
    entry.check(text)
    return entry.name, text


def _reader(entry: ParameterEntry, read: Read) -> Callable[[str], tuple[str, Any]]:
    def of_text(text: str) -> tuple[str, Any]:
        from askance_client.errors import InvalidParameter

        try:
            return read(entry, _listed(text) if entry.kind.is_of_file else text)
        except (InvalidParameter, argparse.ArgumentTypeError) as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return of_text


def _listed(path: str) -> str:
    """Return the values in a file, one per line, as a list with commas."""
    from askance_aggregator.names import names_text

    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8"
        raise argparse.ArgumentTypeError(
            f"expected a file with one value per line, got {path}: {why}"
        ) from None
    values = [line.strip() for line in lines if line.strip()]
    if not values:
        raise argparse.ArgumentTypeError(f"expected one value per line, got none in {path}")
    return names_text(values)


def _completer(words: tuple[str, ...]) -> Callable[..., list[str]]:
    """Return the function by which argcomplete completes a value."""
    return lambda prefix, **_: [word for word in words if word.startswith(prefix)]


def _population_entries(parameters: Iterable[tuple[str, int]]) -> list[ParameterEntry]:
    from askance_aggregator.learners import ParameterEntry, ParameterKind

    return [
        ParameterEntry(name, "a whole number", str(default), ParameterKind.WHOLE)
        for name, default in parameters
    ]


def _change_entries(changes: Iterable[Any]) -> list[ParameterEntry]:
    from askance_aggregator.learners import ParameterEntry, ParameterKind

    return [
        ParameterEntry(change.name, change.summary, "0", ParameterKind.NUMBER) for change in changes
    ]
