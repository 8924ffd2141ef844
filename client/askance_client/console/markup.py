"""HTML from templates: each value is escaped when it is put in, unless it is `Markup` already."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from importlib.resources import files


class Markup(str):
    """HTML whose values were escaped when it was made."""

    __slots__ = ()


def template(name: str) -> str:
    """Return a file of the package: a template, or a part of one."""
    return files(__package__).joinpath(name).read_text("utf-8")


def fill(template: str, /, *values: str, **named: str) -> Markup:
    """Put escaped values into a template.

    Args:
      template: a constant of the caller; where a value stands in an attribute, within quotes.
      values: for `{}`, in order.
      named: for `{name}`.
    """
    safe = [_escaped(value) for value in values]
    return Markup(template.format(*safe, **{name: _escaped(text) for name, text in named.items()}))


def joined(parts: Iterable[str]) -> Markup:
    """Join parts, each of which is escaped unless it is `Markup`."""
    return Markup("".join(_escaped(part) for part in parts))


def _escaped(value: str) -> str:
    return value if isinstance(value, Markup) else escape(value)
