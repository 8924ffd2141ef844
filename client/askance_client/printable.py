"""Values and texts in the form in which messages and terminals show them."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from pathlib import PurePath
from typing import Any

_SHOWN = 80  # characters of a value: with what was expected, a message stays about two lines
_SHOWN_BITS = 256  # of a whole number; Python refuses to write some thousands of digits
_PEM = "-----BEGIN"


def value_text(value: object) -> str:
    """Format a caller's own value for an error message.

    Not to be used for a record's value, a secret, or what an unauthenticated peer sent. Text that
    holds a PEM block, perhaps a private key in the wrong place, is named and not shown.

    Returns:
      The value's repr in at most 80 printable characters; a fraction as "1/3", a decimal as "0.5",
      bytes as their number.
    """
    if isinstance(value, str) and _PEM in value:
        return "PEM text"
    text = printable(_text(value))
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def unknown_text(name: object, known: Iterable[str]) -> str:
    """Format the expected names, the given one and, if there is one, the nearest."""
    names = list(known)
    return f"expected one of {', '.join(names)}, got {value_text(name)}{nearest_text(name, names)}"


def nearest_text(name: object, known: Iterable[str]) -> str:
    """Format the nearest known name as a question in brackets; empty if none is near."""
    nearest = get_close_matches(str(name), list(known), n=1)
    return f" (did you mean {nearest[0]}?)" if nearest else ""


def printable(text: str) -> str:
    """Spell out every character of a text that could steer a terminal.

    An aggregator may say what it likes: a sequence of control characters could blot out what stands
    above it, or write something else there.
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def fixed(value: Fraction, places: int) -> str:
    """Format a number with so many decimals, rounded half up, by whole numbers alone."""
    unit = int(f"1{places * '0'}")
    units = (2 * value.numerator * unit + value.denominator) // (2 * value.denominator)
    whole, rest = divmod(abs(units), unit)
    decimals = f".{rest:0{places}}" if places else ""
    return f"{'-' if units < 0 else ''}{whole}{decimals}"


def all_printable(content: Any) -> Any:
    """Make all texts of a JSON value printable, names of members included."""
    match content:
        case str():
            return printable(content)
        case dict():
            return {printable(name): all_printable(found) for name, found in content.items()}
        case list():
            return [all_printable(found) for found in content]
        case _:
            return content


def _text(value: object) -> str:
    match value:
        case bytes():
            return f"{len(value)} bytes"
        case str():
            return repr(value[: _SHOWN + 1])  # a repr is never shorter than its text
        case PurePath():
            return repr(str(value))
        case Decimal():
            return str(value)
        case int() if value.bit_length() > _SHOWN_BITS:
            return f"a number of {value.bit_length()} bits"
        case Fraction() if value.denominator == 1:
            return _text(value.numerator)
        case Fraction():
            return f"{_text(value.numerator)}/{_text(value.denominator)}"
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        return repr(value.item())  # type: ignore[attr-defined]  # a scalar of numpy's
    try:
        return " ".join(repr(value).split("\n"))
    except ValueError:  # a number of thousands of digits inside
        return f"a {type(value).__name__}"
