"""Errors for names that a registry does not have."""

from __future__ import annotations

from collections.abc import Iterable

from askance_client.errors import InvalidParameter
from askance_client.printable import unknown_text


def unknown_name(field: str, name: object, known: Iterable[str]) -> InvalidParameter:
    """Return the error for a name that is not among the known ones, with the nearest of them.

    Args:
      field: the argument or option that has the name.
      name: the caller's own value.
      known: the names that can be given, in the order to be listed.
    """
    return InvalidParameter(f"{field}: {unknown_text(name, known)}")
