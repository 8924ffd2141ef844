"""Errors for names that a registry does not have."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from askance_client.errors import InvalidParameter


def unknown_name(field: str, name: object, known: Iterable[str]) -> InvalidParameter:
    """Return the error for a name that is not among the known ones, with the nearest of them.

    Args:
      field: the argument or option that has the name.
      name: the caller's own value.
      known: the names that can be given, in the order to be listed.
    """
    return InvalidParameter(f"{field}: {unknown_text(name, known)}")


def unknown_text(name: object, known: Iterable[str]) -> str:
    """Format the expected names, the given one and, if there is one, the nearest."""
    names = list(known)
    return f"expected one of {', '.join(names)}, got {name!r:.80}{nearest_text(name, names)}"


def nearest_text(name: object, known: Iterable[str]) -> str:
    """Format the nearest known name as a question in brackets; empty if none is near."""
    nearest = get_close_matches(str(name), list(known), n=1)
    return f" (did you mean {nearest[0]}?)" if nearest else ""
