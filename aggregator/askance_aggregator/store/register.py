"""Register of devices: who may take part, under which tags, and how they were made known.

An operator revokes, restores, tags and forgets devices here, beside the processes that serve them:
every change raises the register's standing number, which those processes poll. A forgotten device's
place among the users stays empty, so that no other user is ever counted under its ordinal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.store.tagged_population import MAX_TAGS, TaggedPopulation, checked_tags
from askance_client.errors import InvalidParameter, StoreError

MAX_SELECTED_IDS = 500  # in one command; more devices are selected by a tag
MAX_LISTED = 10_000  # devices of one page


class DeviceState(IntEnum):
    """State of a device or a gateway. The numbers are stored."""

    ACTIVE = 0
    REVOKED = 1
    FORGOTTEN = 2


class UnknownDevice(StoreError):
    """A device or a gateway that the register does not have; nothing was changed."""


@dataclass(frozen=True, slots=True)
class DeviceEntry:
    """A device in the register, without its token.

    Args:
      device_id: 1 to 64 bytes.
      ordinal: its place among the users.
      state: ACTIVE or REVOKED.
      tags: sorted.
      gateway: id of the gateway that it is a member of; empty: of none.
      enrolled_day: days since 1970, UTC; None: enrolled before the register noted it.
      seen_day: the last day on which it called; None: no call was noted.
      software: name and version of the program of its last noted call, as it, or its gateway,
        stated them; empty: it stated none.
    """

    device_id: bytes
    ordinal: int
    state: DeviceState
    tags: tuple[str, ...] = ()
    gateway: bytes = b""
    enrolled_day: int | None = None
    seen_day: int | None = None
    software: str = ""


@dataclass(frozen=True, slots=True)
class GatewayEntry:
    """A gateway in the register: its id, number, state and number of members."""

    gateway_id: bytes
    number: int
    state: DeviceState
    members: int


@dataclass(frozen=True, slots=True)
class DeviceSelection:
    """Devices that a command is about: those of some ids, or those that have all of some tags.

    Args:
      ids: of devices or gateways, at most `MAX_SELECTED_IDS`.
      tags: of devices.

    Raises:
      InvalidParameter: both or neither are given, too many ids, or no tag.
    """

    ids: tuple[bytes, ...] = ()
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if bool(self.ids) == bool(self.tags):
            found = "both" if self.ids else "neither"
            raise InvalidParameter(f"devices: expected ids or tags, got {found}")
        if len(self.ids) > MAX_SELECTED_IDS:
            raise InvalidParameter(
                f"devices: expected at most {MAX_SELECTED_IDS} ids, got {len(self.ids)} (give them"
                " a tag)"
            )
        checked_tags(self.tags)


@dataclass(frozen=True, slots=True)
class Affected:
    """Number of devices and of gateways that a command changed."""

    devices: int
    gateways: int = 0


@dataclass(frozen=True, slots=True)
class RegisterCount:
    """Number of active and of revoked devices, and of places that forgotten ones left empty."""

    active: int
    revoked: int
    forgotten: int


@dataclass(frozen=True, slots=True)
class StandingChanges:
    """Changes of the register since an earlier standing number.

    Args:
      number: the standing number that they lead to.
      devices: states by ordinal.
      gateways: states by number.
    """

    number: int
    devices: Mapping[int, DeviceState] = field(default_factory=dict)
    gateways: Mapping[int, DeviceState] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TokenEntry:
    """An enrolment token that was issued or used; the token itself is not kept.

    Args:
      token_id: 16 bytes.
      devices: how many were enrolled with it.
      limit: how many may be in all; None: it was issued before tokens were kept.
      ends_unix_s: from then on it is refused; None as of `limit`.
      revoked: True if it is refused already.
    """

    token_id: bytes
    devices: int
    limit: int | None
    ends_unix_s: int | None
    revoked: bool


class Register(Protocol):
    """The operator's view of a store's devices. Safe to share between threads.

    Every change is one transaction, durable when its method returns.
    """

    def devices(
        self, tags: Sequence[str] = (), after: int = -1, limit: int = 100
    ) -> list[DeviceEntry]:
        """Return devices by ordinal.

        Args:
          tags: that a device has, all of them.
          after: the ordinals listed are above.
          limit: devices at most, 1 to `MAX_LISTED`.
        """
        ...

    def gateways(self, after: int = 0, limit: int = 100) -> list[GatewayEntry]:
        """Return gateways whose numbers are above `after`, at most `limit` of them, by number."""
        ...

    def show(self, device_id: bytes) -> DeviceEntry:
        """Return a device.

        Raises:
          UnknownDevice: the register has none of that id.
        """
        ...

    def tag(
        self, selection: DeviceSelection, add: Sequence[str] = (), remove: Sequence[str] = ()
    ) -> Affected:
        """Give tags to devices, and take tags from them.

        A tag KEY=VALUE takes the place of the device's other tag of that key.

        Returns:
          How many devices were selected.

        Raises:
          InvalidParameter: a malformed tag, one that is both added and removed, none, or a device
            would have more than `MAX_TAGS`.
          UnknownDevice: an id of no device.
        """
        ...

    def revoke(self, selection: DeviceSelection) -> Affected:
        """Exclude devices and gateways; those that were already do not count.

        Raises:
          UnknownDevice: an id of no device and no gateway.
        """
        ...

    def restore(self, selection: DeviceSelection) -> Affected:
        """Admit revoked devices and gateways again; raises as `revoke`."""
        ...

    def forget(self, selection: DeviceSelection) -> Affected:
        """Erase devices' ids, token digests, tags, days and certificates.

        Their ordinals stay empty. Reports that were accepted stay, under the ordinal alone. A
        forgotten id may enrol again, as a new user.

        Raises:
          UnknownDevice: an id of no device.
        """
        ...

    def count(self) -> RegisterCount:
        """Return how many devices there are in each state."""
        ...

    def fix_users(
        self, study_digest: bytes, tags: Sequence[str], epoch: int = 0
    ) -> NDArray[np.int64]:
        """Return the users of a study, or of an epoch of it; decided at the first call, for good.

        Returns:
          Ordinals of the devices that had all tags and were not revoked, sorted. A later call, also
          by another process and with any tags, returns the same.
        """
        ...

    def fixed_users(self, study_digest: bytes, epoch: int = 0) -> NDArray[np.int64] | None:
        """Return the users that `fix_users` has decided; None if it was not called yet."""
        ...

    def count_tagged(self, tags: Sequence[str]) -> int:
        """Return the number of devices that have all tags and are not revoked."""
        ...

    def keep_population(self, study_digest: bytes, population: TaggedPopulation) -> None:
        """Keep the tags that name a study's users; the first ones stay."""
        ...

    def population(self, study_digest: bytes) -> TaggedPopulation | None:
        """Return the tags that name a study's users; None: all devices, or they were deleted."""
        ...

    def standing(self) -> int:
        """Return the standing number: 0 at first, and higher after every change of a state."""
        ...

    def changes(self, since: int) -> StandingChanges:
        """Return the states that changed after a standing number, and the number now."""
        ...

    def note_seen(self, ordinals: Sequence[int], day: int, software: str = "") -> None:
        """Note that devices called; rows that say so already are not written.

        Args:
          ordinals: of the devices.
          day: of the call, in days since 1970.
          software: that they stated, all of them; empty: none.
        """
        ...

    def keep_token(self, token_id: bytes, limit: int, ends_unix_s: int) -> None:
        """Note an enrolment token that is about to be issued."""
        ...

    def tokens(self) -> list[TokenEntry]:
        """Return all enrolment tokens that were kept or used, those that end last first."""
        ...

    def revoke_token(self, token_id: bytes) -> None:
        """Refuse an enrolment token from now on; devices that it enrolled stay.

        Raises:
          UnknownDevice: no such token was kept or used.
        """
        ...


def checked_tagging(
    add: Sequence[str], remove: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the tags to add and to remove.

    Raises:
      InvalidParameter: none, a malformed one, one on both sides, or two added values of one key.
    """
    added, removed = checked_tags(add), checked_tags(remove)
    if not added and not removed:
        raise InvalidParameter("tags: expected one to add or to remove, got none")
    both = sorted(set(added) & set(removed))
    if both:
        raise InvalidParameter(f"tags: expected each added or removed, got both for {both[0]!r}")
    keys = [key for key in map(key_of, added) if key]
    for key in keys:
        if keys.count(key) > 1:
            raise InvalidParameter(f"tags: expected one value per key, got several for {key!r}")
    return added, removed


def key_of(tag: str) -> str:
    """Return the key of a tag KEY=VALUE; an empty text for a bare word."""
    key, mark, _ = tag.partition("=")
    return key if mark else ""


def checked_limit(limit: int) -> int:
    """Return a page's limit.

    Raises:
      InvalidParameter: out of range.
    """
    if not 1 <= limit <= MAX_LISTED:
        raise InvalidParameter(f"limit: expected 1 to {MAX_LISTED}, got {limit}")
    return limit


def too_many_tags(ordinal: int) -> InvalidParameter:
    """The refusal of more tags than a device may have."""
    return InvalidParameter(
        f"tags: expected at most {MAX_TAGS} per device, got more for the device of ordinal"
        f" {ordinal}; nothing was changed"
    )


def unknown_device(device_id: bytes, what: str = "device") -> UnknownDevice:
    """The refusal of an id that the register does not have."""
    return UnknownDevice(
        f"{what}: expected the id of one that is enrolled, got {device_id.hex()}; nothing was"
        f" changed (askance aggregator {'token' if 'token' in what else 'device'} list)"
    )
