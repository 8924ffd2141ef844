"""Untrusted text, made fit to be printed."""

from __future__ import annotations

from typing import Any


def printable(text: str) -> str:
    """The text, with every character that could steer a terminal spelt out.

    An aggregator may say what it likes: a sequence of control characters could blot out what stands
    above it, or write something else there.
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def all_printable(content: Any) -> Any:
    """The same for all the texts in what JSON can say, names of members included."""
    match content:
        case str():
            return printable(content)
        case dict():
            return {printable(name): all_printable(found) for name, found in content.items()}
        case list():
            return [all_printable(found) for found in content]
        case _:
            return content
