"""Authentication of analysts' calls: signatures over a call, its content and the time."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator.analyst.calls import (
    CALL_KEY,
    METHODS,
    TOLERANCE_S,
    Call,
    CallRefused,
    SignedCall,
    call_metadata,
    check_body,
    check_call,
    read_call,
    sign_call,
)
from askance_client.errors import RemoteProtocolError

NOW_S = 1_700_000_000
STUDY = bytes(range(32))
KEY, OTHER_KEY = (Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in (1, 2))


def public(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()


def test_a_call_is_signed_as_the_wire_says() -> None:
    signed = sign_call(Call("Analysts/Watch"), STUDY, KEY, NOW_S)
    content = b"askance Watch v1\0" + STUDY + NOW_S.to_bytes(8, "big", signed=True)
    KEY.public_key().verify(signed.signature, content)


SIGNED = sign_call(Call("Analysts/Watch"), STUDY, KEY, NOW_S)


def encoded(signed: SignedCall) -> bytes:
    ((_, data),) = call_metadata(signed)
    assert isinstance(data, bytes)
    return data


@pytest.mark.parametrize("call", [*map(Call, METHODS)], ids=str)
def test_its_key_is_found_among_those_that_are_trusted(call: Call) -> None:
    signed = sign_call(call, STUDY, KEY, NOW_S)
    assert check_call(call, signed, [public(OTHER_KEY), public(KEY)], NOW_S) == public(KEY)
    with pytest.raises(CallRefused) as caught:
        check_call(call, signed, [public(OTHER_KEY)], NOW_S)
    assert caught.value.reason == "untrusted-key"


@pytest.mark.parametrize("drift", [-TOLERANCE_S, 0, TOLERANCE_S])
def test_clocks_may_differ(drift: int) -> None:
    signed = sign_call(Call("Analysts/Result"), STUDY, KEY, NOW_S)
    assert check_call(Call("Analysts/Result"), signed, [public(KEY)], NOW_S + drift)


@pytest.mark.parametrize("drift", [-TOLERANCE_S - 1, TOLERANCE_S + 1])
def test_an_old_call_is_none(drift: int) -> None:
    signed = sign_call(Call("Analysts/Result"), STUDY, KEY, NOW_S)
    with pytest.raises(CallRefused, match="found it 301 s off") as caught:
        check_call(Call("Analysts/Result"), signed, [public(KEY)], NOW_S + drift)
    assert caught.value.reason == "stale-call"


def test_a_signature_is_good_for_nothing_else() -> None:
    signed, of_an_epoch = (
        sign_call(Call("Analysts/Watch"), STUDY, KEY, NOW_S, epoch) for epoch in (0, 3)
    )
    assert check_call(Call("Analysts/Watch"), of_an_epoch, [public(KEY)], NOW_S) == public(KEY)
    others = (
        (Call("Analysts/Cancel"), signed),
        (Call("Analysts/Watch"), replace(signed, subject=bytes(32))),
        (Call("Analysts/Watch"), replace(signed, at_unix_s=NOW_S + 1)),
        (Call("Analysts/Watch"), replace(signed, epoch=1)),
        (Call("Analysts/Watch"), replace(of_an_epoch, epoch=0)),
        (Call("Analysts/Watch"), replace(of_an_epoch, epoch=4)),
        (Call("Analysts/Watch"), replace(signed, signature=bytes(64))),
    )
    for call, changed in others:
        with pytest.raises(CallRefused, match="expected the signature"):
            check_call(call, changed, [public(KEY)], NOW_S)
    with pytest.raises(CallRefused, match="expected a trusted"):
        check_call(
            Call("Analysts/Watch"),
            replace(signed, public_key=public(OTHER_KEY)),
            [public(KEY)],
            NOW_S,
        )


BODY, NONCE = b"a message", bytes(range(16))


def test_version_2_signs_message_and_nonce() -> None:
    signed = sign_call(Call("Analysts/Cancel"), STUDY, KEY, NOW_S, 3, body=BODY, nonce=NONCE)
    content = (
        b"askance Analysts/Cancel v2\0"
        + STUDY
        + NOW_S.to_bytes(8, "big", signed=True)
        + (3).to_bytes(4, "big")
        + hashlib.sha256(BODY).digest()
        + NONCE
    )
    KEY.public_key().verify(signed.signature, content)
    assert check_call(Call("Analysts/Cancel"), signed, [public(KEY)], NOW_S) == public(KEY)
    check_body(Call("Analysts/Cancel"), signed, BODY)
    with pytest.raises(CallRefused, match="expected the message"):
        check_body(Call("Analysts/Cancel"), signed, BODY + b"!")
    for changed in (
        replace(signed, nonce=bytes(16)),
        replace(signed, body_digest=bytes(32)),
        replace(signed, epoch=4),
        replace(signed, nonce=b"", body_digest=b""),
    ):
        with pytest.raises(CallRefused, match="expected the signature"):
            check_call(Call("Analysts/Cancel"), changed, [public(KEY)], NOW_S)


@pytest.mark.parametrize("nonce", [b"", NONCE])
def test_calls_survive_the_wire(nonce: bytes) -> None:
    signed = sign_call(Call("Analysts/Export"), STUDY, KEY, NOW_S, body=BODY, nonce=nonce)
    assert read_call(call_metadata(signed)) == signed


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        bytes(300),
        encoded(replace(SIGNED, subject=b"short")),
        encoded(replace(SIGNED, signature=b"")),
        encoded(replace(SIGNED, public_key=b"")),
        encoded(replace(SIGNED, nonce=NONCE)),
        encoded(replace(SIGNED, nonce=NONCE, body_digest=b"short")),
        encoded(replace(SIGNED, nonce=b"short", body_digest=bytes(32))),
        encoded(SIGNED) + b"\x78\x01",
    ],
)
def test_what_is_no_call_is_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        read_call(((CALL_KEY, data),))


def test_a_call_without_a_signature_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="in the metadata"):
        read_call(())
