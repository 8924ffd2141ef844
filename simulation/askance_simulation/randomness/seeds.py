"""Everything random in a simulation comes from one seed, by name."""

from __future__ import annotations

import hashlib
from numbers import Integral

from askance_client.errors import InvalidParameter
from askance_client.printable import value_text


class Seed:
    """A node of a tree of seeds: `seed / "population"` is another, unrelated to its siblings.

    Args:
      key: 32 bytes.

    Example:
      >>> root = ask.Seed.of(7)
      >>> (root / "population").key == (root / "coins").key
      False
      >>> (root / "population").key == (ask.Seed.of(7) / "population").key
      True
    """

    __slots__ = ("key",)

    def __init__(self, key: bytes) -> None:
        self.key = key

    @classmethod
    def of(cls, number: int) -> Seed:
        """Return the root for a whole number of any size; none is cut short.

        Raises:
          InvalidParameter: a negative number.
        """
        if not isinstance(number, Integral) or number < 0:
            given = value_text(number)
            raise InvalidParameter(f"seed: expected a whole number of 0 or more, got {given}")
        return cls(hashlib.sha256(b"askance seed v1\0" + str(number).encode()).digest())

    def __truediv__(self, name: str | int) -> Seed:
        return Seed(hashlib.sha256(self.key + b"/" + str(name).encode()).digest())
