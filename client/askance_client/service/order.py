"""Order in which an aggregator observes the members of a gateway.

Members are ordered by their device ids as bytes, ascending; the order of a records file is lost.

| observed by the aggregator             | decided by                                        |
|----------------------------------------|---------------------------------------------------|
| messages of an enrolment, devices in one | this order, cut every `MAX_ENROLMENTS` devices  |
| order in which streams are opened      | this order                                        |
| connection that a member's calls use   | position in this order, modulo the connections    |
| order of check-ins (`run --once`)      | this order                                        |

Privacy: the order is a function of the set of device ids, which the aggregator receives in any
  case, so it adds no information to that set. An id is HMAC-SHA-256 of a member's name under the
  secret of a folder (`Secret.member`), so that without the secret it is independent of the row.
Not hidden: the number of members, and which of them were enrolled by a later command, because rows
  were added to the file in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from askance_client.service.identity import Identity

T = TypeVar("T")


def ordered(members: Iterable[T], identity: Callable[[T], Identity]) -> list[T]:
    """Return members in the order in which an aggregator may observe them.

    Args:
      members: in any order.
      identity: the identity of a member, with distinct device ids.
    """
    return sorted(members, key=lambda member: identity(member).device_id)
