"""Enrolment tokens: genuine, in time, and nothing else."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance_aggregator.server.process.files import NotOperable
from askance_aggregator.server.process.tokens import EnrolmentTokens, read_tokens
from askance_aggregator.store import EnrolmentRefused
from askance_client.errors import InvalidParameter
from tests.aggregator.server.process.conftest import NOW_S

KEY = bytes(range(32))
DAY_S = 86_400


class Clock:
    def __init__(self) -> None:
        self.now_s = NOW_S

    def __call__(self) -> int:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tokens(clock: Clock) -> EnrolmentTokens:
    return EnrolmentTokens(KEY, clock)


def test_a_token_says_how_many_and_until_when(tokens: EnrolmentTokens, clock: Clock) -> None:
    token = tokens.issue(48_842, 3)
    assert token.ends_unix_s == NOW_S + 3 * DAY_S
    assert tokens.verify(token.text.encode()) == (token.token_id, 48_842)
    clock.now_s = token.ends_unix_s - 1
    assert tokens.verify(f"{token.text}\n".encode()) == (token.token_id, 48_842)
    clock.now_s += 1
    with pytest.raises(EnrolmentRefused, match="valid still, found one past"):
        tokens.verify(token.text.encode())


def test_every_token_is_counted_by_itself(tokens: EnrolmentTokens) -> None:
    one, other = tokens.issue(1, 1), tokens.issue(1, 1)
    assert one.token_id != other.token_id
    assert len(one.token_id) == 16


def test_a_token_is_not_shown_by_accident(tokens: EnrolmentTokens) -> None:
    token = tokens.issue(1, 1)
    assert token.text not in repr(token)


def test_another_aggregators_token_is_none(tokens: EnrolmentTokens, clock: Clock) -> None:
    other = EnrolmentTokens(bytes(32), clock).issue(1, 1)
    with pytest.raises(EnrolmentRefused, match="of this aggregator, got another"):
        tokens.verify(other.text.encode())


def test_no_changed_bit_goes_unnoticed() -> None:
    tokens = EnrolmentTokens(KEY, lambda: NOW_S)
    data = base64.urlsafe_b64decode(tokens.issue(1, 1).text + "==")
    for place in range(8 * len(data)):
        changed = bytearray(data)
        changed[place // 8] ^= 1 << place % 8
        with pytest.raises(EnrolmentRefused):
            tokens.verify(base64.urlsafe_b64encode(changed).rstrip(b"="))


@given(st.binary(max_size=200))
def test_anything_else_is_refused(token: bytes) -> None:
    with pytest.raises(EnrolmentRefused):
        EnrolmentTokens(KEY, lambda: NOW_S).verify(token)


@pytest.mark.parametrize(("devices", "days"), [(0, 1), (1 << 32, 1), (1, 0), (1, 36_526)])
def test_a_number_that_no_token_holds(devices: int, days: int, tokens: EnrolmentTokens) -> None:
    with pytest.raises(InvalidParameter, match=r"(devices|days): expected 1 to"):
        tokens.issue(devices, days)


def test_a_key_file_is_a_key_or_an_error(tmp_path: Path) -> None:
    path = tmp_path / "enrolment.key"
    with pytest.raises(NotOperable, match="cannot be read: No such file"):
        read_tokens(path, lambda: NOW_S)
    path.write_bytes(KEY[1:])
    with pytest.raises(NotOperable, match="expected 32 bytes, found 31 bytes"):
        read_tokens(path, lambda: NOW_S)
    path.write_bytes(KEY)
    assert read_tokens(path, lambda: NOW_S).issue(1, 1).devices == 1
