"""Checks that every store makes, and the errors of what it refuses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from askance_aggregator.store.contract import (
    DEVICE_ID_BYTES,
    DIGEST_BYTES,
    MAX_SEQUENCE,
    TOKEN_ID_BYTES,
    EnrolmentRefused,
    StoredReport,
)
from askance_client.errors import StoreError


def checked_devices(devices: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The devices as a list, each of which could be enrolled in an empty store."""
    listed = list(devices)
    seen: set[bytes] = set()
    for place, (device_id, token_digest) in enumerate(listed):
        if not 1 <= len(device_id) <= DEVICE_ID_BYTES:
            raise StoreError(
                f"enrolment: expected ids of 1 to {DEVICE_ID_BYTES} bytes,"
                f" found {len(device_id)} at device {place}"
            )
        if len(token_digest) != DIGEST_BYTES:
            raise StoreError(
                f"enrolment: expected token digests of {DIGEST_BYTES} bytes,"
                f" found {len(token_digest)} at device {place}"
            )
        if device_id in seen:
            raise StoreError(f"enrolment: expected distinct ids, found device {place} again")
        seen.add(device_id)
    return listed


def checked_arrivals(arrivals: Sequence[StoredReport]) -> Sequence[StoredReport]:
    """The arrivals, each of a form that a store keeps."""
    for arrival in arrivals:
        if len(arrival.request_digest) != DIGEST_BYTES or arrival.ordinal < 0:
            raise StoreError(
                f"reports: expected a digest of {DIGEST_BYTES} bytes and an ordinal of 0 or more,"
                f" found {len(arrival.request_digest)} bytes and {arrival.ordinal}"
            )
        if not 0 <= arrival.sequence <= MAX_SEQUENCE:
            raise StoreError(
                f"reports: expected a sequence number of 0 to 2^63 - 1, got {arrival.sequence}"
            )
    return arrivals


def checked_enrolment(
    devices: Iterable[tuple[bytes, bytes]],
    token_id: bytes,
    gateway: tuple[bytes, bytes] | None = None,
) -> list[tuple[bytes, bytes]]:
    """The devices of an enrolment by token, as `checked_devices` has them."""
    if len(token_id) != TOKEN_ID_BYTES:
        raise StoreError(
            f"enrolment: expected a token id of {TOKEN_ID_BYTES} bytes, found {len(token_id)}"
        )
    if gateway is not None:
        checked_devices([gateway])
    return checked_devices(devices)


def refuse_other_gateway() -> EnrolmentRefused:
    """The refusal of a gateway that is known with another token of its own."""
    return EnrolmentRefused(
        "enrolment: expected a gateway with its own token, found it enrolled with another"
    )


def refuse_other_token(place: int) -> EnrolmentRefused:
    """The refusal of a device that is known with another token of its own."""
    return EnrolmentRefused(
        f"enrolment: expected new devices or their own tokens, found device {place} enrolled with"
        " another"
    )


def refuse_revoked_token() -> EnrolmentRefused:
    """The refusal of an enrolment token that the operator has revoked."""
    return EnrolmentRefused("enrolment: expected an enrolment token in force, got a revoked one")


def refuse_more_devices(limit: int, used: int) -> EnrolmentRefused:
    """The refusal of more devices than an enrolment token is for."""
    return EnrolmentRefused(
        f"enrolment: expected at most {limit} devices by this enrolment token, got {used}"
        " (a token is used up by its last device; the operator makes another)"
    )


def concluded_otherwise(digest: bytes) -> StoreError:
    """The complaint about a second end of a study."""
    return StoreError(f"study {digest.hex()[:16]}: expected no other conclusion, found one stored")
