"""Declarations: the annotated arguments of a function or a dataclass, each stated there and once.

A learner's parameters and the keys of an aggregator's configuration are arguments with a note
(`streams: Annotated[int, "open at one time"] = 50_000`). A note of a learner's parameter is a
`learners.parameters.Parameter`; those of a configuration stand below, and a text is a `Key`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from inspect import Parameter as Argument
from inspect import signature
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from askance_client.accounting import parse_epsilon
from askance_client.toml_tables import a_text

Read = Callable[[object, Path], Any]
"""Maker of a key's value from what TOML holds and the file's folder; raises InvalidParameter."""


def annotated(maker: Callable[..., object]) -> Iterator[tuple[Argument, Any, Any]]:
    """Yield the annotated arguments of a function or a dataclass: argument, type and note."""
    hints = get_type_hints(maker, include_extras=True)
    for name, argument in signature(maker).parameters.items():
        if get_origin(hints.get(name)) is Annotated:
            type_, note, *_ = get_args(hints[name])
            yield argument, type_, note


def budget_value(value: object, _: Path) -> int:
    """Return the nano-nats of nats that are a text or a whole number, exactly."""
    if isinstance(value, int) and not isinstance(value, bool):
        return parse_epsilon(value, field="")
    return parse_epsilon(a_text(value), field="")


@dataclass(frozen=True, slots=True)
class Key:
    """Note of a key.

    Args:
        example: TOML text that a template shows where the key has no default.
        name: in the file; empty: the argument's.
        read: maker of its value; None: the one of its type.
        fixed: whether another value waits for the process's next start.
    """

    text: str
    example: str = ""
    name: str = ""
    read: Read | None = None
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class KeyTable:
    """Note of a table of keys.

    Args:
        make: declares its keys and makes its value of them; None: the argument's type.
        fixed: whether another value waits for the process's next start.
        shown: whether a template has the table itself, and not as a comment.
        name: in the file; empty: the argument's.
    """

    text: str = ""
    make: Callable[..., object] | None = None
    fixed: bool = False
    shown: bool = True
    name: str = ""


class KeyRows(KeyTable):
    """Note of an array of tables, each made by `make`; its value is a tuple."""


class KeyGroup(KeyTable):
    """Note of an argument that is made of keys of the table in which it stands."""


@dataclass(frozen=True, slots=True)
class DeclaredKey:
    """Key or table as it is declared.

    Args:
        type: of the value, without None.
        note: as it is written, a text as a `Key`.
        default: of the argument; `Argument.empty`: it must be given.
    """

    argument: str
    name: str
    type: Any
    note: Key | KeyTable
    default: Any

    @property
    def needed(self) -> bool:
        """Return whether it must be given."""
        return self.default is Argument.empty

    @property
    def make(self) -> Callable[..., object]:
        """Return what makes the value of a table, or of a row."""
        assert isinstance(self.note, KeyTable)
        return self.note.make or self.type


@cache
def declared_keys(maker: Callable[..., object]) -> tuple[DeclaredKey, ...]:
    """Return the keys and tables that a function or a dataclass declares, in their order."""
    return tuple(
        _declared(argument, type_, Key(note) if isinstance(note, str) else note)
        for argument, type_, note in annotated(maker)
    )


def _declared(argument: Argument, type_: Any, note: Key | KeyTable) -> DeclaredKey:
    if get_origin(type_) in (Union, UnionType):
        type_ = next(one for one in get_args(type_) if one is not type(None))
    return DeclaredKey(argument.name, note.name or argument.name, type_, note, argument.default)
