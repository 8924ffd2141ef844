r"""Population of a study that asks tagged devices only, and the commitment that is signed for it.

The commitment is SHA-256 over `b"askance population tags v1\0"`, a salt of 32 random bytes, the
number of tags (2 bytes, big-endian) and for each tag, in the order of its bytes, its length
likewise and its bytes. It hides the tags from devices, to which tags and salt are never sent, and
two studies of the same tags have different ones. It binds: no other tags open it, unless two inputs
with one SHA-256 are known.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from askance_client.errors import InvalidParameter
from askance_client.printable import value_text

SALT_BYTES = 32
MAX_TAGS = 16  # of a device: an operator's few notes, not a database of their own
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}(=[A-Za-z0-9._:/-]{1,64})?")
_DOMAIN = b"askance population tags v1\0"


@dataclass(frozen=True, slots=True)
class TaggedPopulation:
    """Devices that have all of some tags, as a study's analyst names them.

    Args:
      tags: 1 to `MAX_TAGS`, sorted, each once.
      salt: 32 random bytes of this study alone.
    """

    tags: tuple[str, ...]
    salt: bytes

    def __post_init__(self) -> None:
        if not self.tags:
            raise InvalidParameter("tags: expected 1 or more, got none")
        if self.tags != tuple(sorted(checked_tags(self.tags))):
            raise InvalidParameter(
                f"tags: expected them sorted, each once, got {', '.join(self.tags)}"
            )
        if len(self.salt) != SALT_BYTES:
            raise InvalidParameter(f"salt: expected {SALT_BYTES} bytes, got {len(self.salt)}")

    @classmethod
    def of(cls, tags: Iterable[str], salt: bytes) -> TaggedPopulation:
        """Return the population of tags in any order."""
        return cls(tuple(sorted(set(tags))), salt)

    @property
    def commitment(self) -> bytes:
        """Commitment to the tags, 32 bytes."""
        encoded = [tag.encode() for tag in self.tags]
        parts = [part for tag in encoded for part in (_two_bytes(len(tag)), tag)]
        return hashlib.sha256(
            b"".join((_DOMAIN, self.salt, _two_bytes(len(encoded)), *parts))
        ).digest()

    def __str__(self) -> str:
        return f"devices tagged {', '.join(self.tags)}"


def _two_bytes(number: int) -> bytes:
    return number.to_bytes(2, "big")


def checked_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return tags, each once."""
    distinct = tuple(dict.fromkeys(tags))
    for tag in distinct:
        if not _TAG.fullmatch(tag):
            raise InvalidParameter(
                "tag: expected WORD or KEY=VALUE (letters, digits, . _ -; the value : / as well;"
                f" 32 and 64 at most), got {value_text(tag)}"
            )
    if len(distinct) > MAX_TAGS:
        raise InvalidParameter(f"tags: expected at most {MAX_TAGS}, got {len(distinct)}")
    return distinct
