"""The register of a store that lasts as long as its process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.store.checks import (
    refuse_revoked_token,
)
from askance_aggregator.store.contract import (
    EnrolledDevice,
    EnrolledGateway,
)
from askance_aggregator.store.register import (
    Affected,
    DeviceEntry,
    DeviceSelection,
    DeviceState,
    GatewayEntry,
    RegisterCount,
    StandingChanges,
    TokenEntry,
    checked_limit,
    checked_tagging,
    key_of,
    too_many_tags,
    unknown_device,
)
from askance_aggregator.store.tagged_population import MAX_TAGS, TaggedPopulation, checked_tags


class MemoryRegister:
    """The register on dictionaries (see `Register`).

    Args:
      devices: the store's, by id.
      gateways: the store's, by id.
      used: devices enrolled by each enrolment token.
      lock: of the store.
      erase_certificates: erases the certificates of devices, given by their ordinals.
    """

    def __init__(
        self,
        devices: dict[bytes, EnrolledDevice],
        gateways: dict[bytes, EnrolledGateway],
        used: dict[bytes, int],
        lock: threading.Lock,
        erase_certificates: Callable[[Collection[int]], None],
    ) -> None:
        self._devices = devices
        self._gateways = gateways
        self._used = used
        self._lock = lock
        self._erase_certificates = erase_certificates
        self._standing = 0
        self._tags: dict[int, frozenset[str]] = {}
        self._changed: dict[int, tuple[int, DeviceState]] = {}  # ordinal: standing, state
        self._changed_gateways: dict[int, tuple[int, DeviceState]] = {}
        self._seen: dict[int, int] = {}
        self._software: dict[int, str] = {}
        self._users: dict[tuple[bytes, int], NDArray[np.int64]] = {}
        self._populations: dict[bytes, TaggedPopulation] = {}
        self._tokens: dict[bytes, TokenEntry] = {}

    @property
    def forgotten(self) -> int:
        """Number of places that are empty; the store's lock is held, or no other thread writes."""
        return sum(state is DeviceState.FORGOTTEN for _, state in self._changed.values())

    def check_token(self, token_id: bytes) -> None:
        """Refuse an enrolment token that was revoked.

        Raises:
          EnrolmentRefused: it was.
        """
        kept = self._tokens.get(token_id)
        if kept is not None and kept.revoked:
            raise refuse_revoked_token()

    def devices(
        self, tags: Sequence[str] = (), after: int = -1, limit: int = 100
    ) -> list[DeviceEntry]:
        wanted = set(checked_tags(tags))
        with self._lock:
            entries = [
                self._entry(device_id, device)
                for device_id, device in self._devices.items()
                if device.ordinal > after and wanted <= self._tags_of(device.ordinal)
            ]
        return sorted(entries, key=lambda entry: entry.ordinal)[: checked_limit(limit)]

    def gateways(self, after: int = 0, limit: int = 100) -> list[GatewayEntry]:
        members = [device.gateway for device in self._devices.values()]
        entries = [
            GatewayEntry(
                gateway_id,
                gateway.number,
                self._changed_gateways.get(gateway.number, (0, DeviceState.ACTIVE))[1],
                members.count(gateway.number),
            )
            for gateway_id, gateway in self._gateways.items()
            if gateway.number > after
        ]
        return entries[: checked_limit(limit)]

    def show(self, device_id: bytes) -> DeviceEntry:
        device = self._devices.get(device_id)
        if device is None:
            raise unknown_device(device_id)
        return self._entry(device_id, device)

    def tag(
        self, selection: DeviceSelection, add: Sequence[str] = (), remove: Sequence[str] = ()
    ) -> Affected:
        added, removed = checked_tagging(add, remove)
        keys = tuple(f"{key}=" for key in map(key_of, added) if key)
        with self._lock:
            changed = {}
            selected = self._selected(selection)
            for device_id in selected:
                ordinal = self._devices[device_id].ordinal
                tags = {
                    tag
                    for tag in self._tags_of(ordinal)
                    if tag not in removed and not tag.startswith(keys or ("\0",))
                }
                changed[ordinal] = frozenset(tags.union(added))
                if len(changed[ordinal]) > MAX_TAGS:
                    raise too_many_tags(ordinal)
            self._tags.update(changed)
        return Affected(len(selected))

    def revoke(self, selection: DeviceSelection) -> Affected:
        return self._change(selection, DeviceState.REVOKED)

    def restore(self, selection: DeviceSelection) -> Affected:
        return self._change(selection, DeviceState.ACTIVE)

    def forget(self, selection: DeviceSelection) -> Affected:
        with self._lock:
            selected = self._selected(selection)
            self._standing += 1
            self._erase_certificates({self._devices[one].ordinal for one in selected})
            for device_id in selected:
                ordinal = self._devices.pop(device_id).ordinal
                self._changed[ordinal] = (self._standing, DeviceState.FORGOTTEN)
                self._tags.pop(ordinal, None)
                self._seen.pop(ordinal, None)
                self._software.pop(ordinal, None)
        return Affected(len(selected))

    def count(self) -> RegisterCount:
        with self._lock:
            states = [state for _, state in self._changed.values()]
            revoked = states.count(DeviceState.REVOKED)
            forgotten = states.count(DeviceState.FORGOTTEN)
            return RegisterCount(len(self._devices) - revoked, revoked, forgotten)

    def fix_users(
        self, study_digest: bytes, tags: Sequence[str], epoch: int = 0
    ) -> NDArray[np.int64]:
        of = (study_digest, epoch)
        with self._lock:
            if of not in self._users:
                self._users[of] = np.array(sorted(self._active(tags)), dtype=np.int64)
            return self._users[of]

    def fixed_users(self, study_digest: bytes, epoch: int = 0) -> NDArray[np.int64] | None:
        return self._users.get((study_digest, epoch))

    def count_tagged(self, tags: Sequence[str]) -> int:
        with self._lock:
            return len(self._active(tags))

    def keep_population(self, study_digest: bytes, population: TaggedPopulation) -> None:
        with self._lock:
            self._populations.setdefault(study_digest, population)

    def population(self, study_digest: bytes) -> TaggedPopulation | None:
        return self._populations.get(study_digest)

    def drop_users(self, study_digest: bytes) -> None:
        """Forget which users a study had; the store's lock is held."""
        for of in [of for of in self._users if of[0] == study_digest]:
            del self._users[of]

    def drop_population(self, study_digest: bytes) -> None:
        """Forget the tags that name a study's users; the store's lock is held."""
        self._populations.pop(study_digest, None)

    def standing(self) -> int:
        return self._standing

    def changes(self, since: int) -> StandingChanges:
        with self._lock:
            return StandingChanges(
                self._standing,
                {of: state for of, (at, state) in self._changed.items() if at > since},
                {of: state for of, (at, state) in self._changed_gateways.items() if at > since},
            )

    def note_seen(self, ordinals: Sequence[int], day: int, software: str = "") -> None:
        with self._lock:
            self._seen.update({one: max(day, self._seen.get(one, day)) for one in ordinals})
            self._software.update(dict.fromkeys(ordinals, software))

    def keep_token(self, token_id: bytes, limit: int, ends_unix_s: int) -> None:
        with self._lock:
            self._tokens.setdefault(token_id, TokenEntry(token_id, 0, limit, ends_unix_s, False))

    def tokens(self) -> list[TokenEntry]:
        with self._lock:
            known = dict.fromkeys([*self._tokens, *self._used])
            entries = [
                replace(
                    self._tokens.get(token_id, TokenEntry(token_id, 0, None, None, False)),
                    devices=self._used.get(token_id, 0),
                )
                for token_id in known
            ]
        return sorted(entries, key=lambda one: (-(one.ends_unix_s or 0), one.token_id))

    def revoke_token(self, token_id: bytes) -> None:
        with self._lock:
            if token_id not in self._tokens and token_id not in self._used:
                raise unknown_device(token_id, "enrolment token")
            kept = self._tokens.get(token_id, TokenEntry(token_id, 0, None, None, False))
            self._tokens[token_id] = replace(kept, revoked=True)

    def _change(self, selection: DeviceSelection, state: DeviceState) -> Affected:
        with self._lock:
            devices = self._selected(selection, gateways=True)
            of_devices = [self._devices[one].ordinal for one in devices]
            of_gateways = [
                self._gateways[one].number for one in selection.ids if one in self._gateways
            ]
            self._standing += 1
            return Affected(
                self._set(self._changed, of_devices, state),
                self._set(self._changed_gateways, of_gateways, state),
            )

    def _set(
        self, states: dict[int, tuple[int, DeviceState]], numbers: list[int], state: DeviceState
    ) -> int:
        before = (0, DeviceState.ACTIVE)
        changed = [one for one in numbers if states.get(one, before)[1] is not state]
        states.update(dict.fromkeys(changed, (self._standing, state)))
        return len(changed)

    def _selected(self, selection: DeviceSelection, *, gateways: bool = False) -> list[bytes]:
        """Return the ids of the selected devices."""
        if selection.tags:
            wanted = set(selection.tags)
            return [
                device_id
                for device_id, device in self._devices.items()
                if wanted <= self._tags_of(device.ordinal)
            ]
        for device_id in selection.ids:
            known = device_id in self._devices or (gateways and device_id in self._gateways)
            if not known:
                raise unknown_device(device_id)
        return [one for one in dict.fromkeys(selection.ids) if one in self._devices]

    def _active(self, tags: Sequence[str]) -> list[int]:
        """Return the ordinals of the devices that have all tags and are not revoked."""
        selected = self._selected(DeviceSelection(tags=checked_tags(tags)))
        entries = [self._entry(one, self._devices[one]) for one in selected]
        return [one.ordinal for one in entries if one.state is DeviceState.ACTIVE]

    def _tags_of(self, ordinal: int) -> frozenset[str]:
        return self._tags.get(ordinal, frozenset())

    def _entry(self, device_id: bytes, device: EnrolledDevice) -> DeviceEntry:
        ids = {gateway.number: one for one, gateway in self._gateways.items()}
        ordinal = device.ordinal
        return DeviceEntry(
            device_id,
            ordinal,
            self._changed.get(ordinal, (0, DeviceState.ACTIVE))[1],
            tuple(sorted(self._tags_of(ordinal))),
            ids.get(device.gateway, b""),
            None,
            self._seen.get(ordinal),
            self._software.get(ordinal, ""),
        )
