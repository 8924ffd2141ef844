"""Limits per caller in the outer process, and by what callers are told apart."""

from __future__ import annotations

import asyncio
from ipaddress import ip_network
from typing import Any, cast

import pytest
from grpc import aio

from askance_aggregator.server.outer.addresses import group_of, read_ip
from askance_aggregator.server.outer.pass_through import (
    MAX_UNREAD_BYTES,
    Metadata,
    PassThrough,
    _credential,
    _passed,
    _Unread,
)
from askance_aggregator.server.outer.settings import OuterSettings


class Deaf:
    """Context of a caller that reads nothing."""

    async def write(self, _: bytes) -> None:
        await asyncio.Event().wait()


def test_one_caller_that_reads_nothing_is_refused_and_another_is_not() -> None:
    async def whole() -> None:
        passed = PassThrough(cast(aio.Channel, None), lambda peer, _: peer, devices=False)
        part, deaf = bytes(MAX_UNREAD_BYTES // 2), Deaf()
        held = [asyncio.ensure_future(passed._write(deaf, b"one", part)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(_Unread):
            await passed._write(deaf, b"one", b"x")
        other: Any = asyncio.ensure_future(passed._write(deaf, b"other", part))
        await asyncio.sleep(0)
        assert not other.done()
        for one in (*held, other):
            one.cancel()
        await asyncio.gather(*held, other, return_exceptions=True)
        assert not len(passed._unread_calls) + len(passed._unread_bytes)

    asyncio.run(whole())


def bearer(token: str) -> Metadata:
    return (("authorization", f"Bearer {token}"),)


def signed(key: bytes, rest: bytes) -> Metadata:
    """An encoded `SignedCall` begins with a tag, a length, and the caller's public key."""
    return (("askance-call-bin", b"\x0a\x20" + key + rest),)


def test_callers_are_told_apart_by_what_they_prove_themselves_with() -> None:
    callers: list[Metadata] = [
        bearer("one"),
        bearer("two"),
        signed(bytes(32), b"first"),
        signed(bytes([1]) * 32, b"first"),
        (("askance-device-bin", b"device"),),
        (),
    ]
    assert len(set(map(_credential, callers))) == len(callers)
    assert _credential(signed(bytes(32), b"first")) == _credential(signed(bytes(32), b"second"))


def test_no_word_of_a_caller_on_its_own_address_goes_on() -> None:
    """Metadata of gRPC itself is set anew, too; what is left is the caller's call."""
    given: Metadata = (
        ("x-forwarded-for", "192.0.2.1"),
        ("askance-call-bin", b"call"),
        ("user-agent", "grpc"),
        ("grpc-timeout", "1S"),
        ("x-forwarded-for", "192.0.2.2"),
    )
    assert _passed(given) == (("askance-call-bin", b"call"),)


@pytest.mark.parametrize(
    ("address", "group"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("10.1.2.3", ""),  # of a proxy: many callers come from it
        ("2001:db8:0:1::5", "2001:db8:0:1::/64"),
        ("::ffff:10.1.2.3", ""),
    ],
)
def test_limits_per_address_are_for_callers_and_not_for_proxies(address: str, group: str) -> None:
    found = read_ip(address)
    assert found is not None
    assert group_of(found, [ip_network("10.0.0.0/8")]) == group


def test_settings_do_not_show_their_key() -> None:
    """A log line or a traceback may show them."""
    assert "secret" not in repr(OuterSettings("certificate", "secret"))
