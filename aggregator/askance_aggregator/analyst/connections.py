"""Channels from an analyst to an aggregator: TLS, or plain text on a trusted path."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NoReturn, TypeVar

import grpc
from cryptography import x509

from askance_aggregator.analyst.calls import CallRefused
from askance_aggregator.analyst.messages import MAX_ANSWER_BYTES, MAX_SUBMISSION_BYTES, REASON_KEY
from askance_client.addresses import Address
from askance_client.errors import InvalidParameter, PlanRefused
from askance_client.service.channels import NO_PROXY

T = TypeVar("T")
_KEEPALIVE_MS = 60_000
_CALLS = 8  # at one time over one connection: half of what an aggregator takes
_TRIES = 3
_AGAIN_S = 0.5  # between two of them
_REFUSED_BEFORE_ASKING = ("plan-refused", "over-user-budget", "over-quota")
# An aggregator takes 16 calls per connection, and gRPC lets more wait without a word. A process
# that watches many studies therefore has several connections: each is opened when others are full.
_CONNECTIONS = 64
_OPTIONS = [
    (
        "grpc.service_config",
        json.dumps({"connectionScaling": {"maxConnectionsPerSubchannel": _CONNECTIONS}}),
    ),
    ("grpc.max_connections_per_subchannel_cap", _CONNECTIONS),
    ("grpc.max_receive_message_length", MAX_ANSWER_BYTES),
    ("grpc.max_send_message_length", 2 * MAX_SUBMISSION_BYTES),
    ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
    ("grpc.use_local_subchannel_pool", 1),  # a channel is a connection
    ("grpc.max_reconnect_backoff_ms", 2_000),  # an interactive caller waits
]


def open_channel(address: str, ca: Path | None, *, plaintext: bool) -> grpc.Channel:
    """A channel to HOST:PORT.

    TLS by the authority in `ca`, or by those that the system trusts; plain text if that is asked
    for, and to this machine if no authority is given.
    """
    where = Address.of(address)
    if ca is not None:
        if plaintext:
            raise InvalidParameter("connect: expected an authority or plain text, got both")
        credentials = grpc.ssl_channel_credentials(_authority(ca))
        return grpc.secure_channel(str(where), credentials, _OPTIONS)
    if plaintext or where.is_loopback:
        return grpc.insecure_channel(str(where), [*_OPTIONS, NO_PROXY])
    return grpc.secure_channel(str(where), grpc.ssl_channel_credentials(), _OPTIONS)


class ConnectionPool:
    """Connections to an aggregator, as many as the calls at one time need; for any thread.

    An aggregator takes few calls at one time over one connection, and lets more wait. Arguments and
    errors are those of `open_channel`.
    """

    def __init__(self, address: str, ca: Path | None, *, plaintext: bool) -> None:
        self._open = partial(open_channel, address, ca, plaintext=plaintext)
        self._lock = threading.Lock()
        self._calls = {self._open(): 0}
        self._is_closed = False

    @contextmanager
    def channel(self) -> Iterator[grpc.Channel]:
        """A channel for one call, for the length of a block."""
        with self._lock:
            if self._is_closed:
                raise CallRefused(
                    "closed", "aggregator: expected an open connection, got a closed one"
                )
            found = next((one for one, calls in self._calls.items() if calls < _CALLS), None)
            channel = found or self._open()
            self._calls[channel] = self._calls.get(channel, 0) + 1
        try:
            yield channel
        finally:
            with self._lock:
                self._calls[channel] -= 1

    def close(self) -> None:
        """Hang up."""
        with self._lock:
            self._is_closed = True
        for channel in self._calls:
            channel.close()


def refuse(error: grpc.RpcError, address: str, ca: Path | None) -> NoReturn:
    """Raise what a call's failure means; `ca` is the authority by which it was called, if any.

    Raises:
      PlanRefused: the study was refused before a user was asked.
      CallRefused: the call was refused for another reason, or the aggregator is away.
    """
    if not isinstance(error, grpc.Call):
        raise error
    details = error.details() or "no reason given"
    metadata = {str(key): value for key, value in error.trailing_metadata() or ()}
    reason = str(metadata.get(REASON_KEY, ""))
    if reason in _REFUSED_BEFORE_ASKING:
        raise PlanRefused(details) from None
    if not reason and error.code() is grpc.StatusCode.UNAVAILABLE:
        raise CallRefused(
            "unreachable", f"aggregator {address}: {unreachable(details, ca)}"
        ) from None
    if not reason:
        code = error.code().name.lower().replace("_", "-")
        raise CallRefused(code, f"aggregator {address}: {details}") from None
    raise CallRefused(reason, details) from None


def unreachable(details: str, ca: Path | None) -> str:
    """Explain a failure to connect, from gRPC's details and the way it was tried."""
    for sign, meaning in _MEANINGS:
        if sign in details:
            return f"{meaning}: {details}"
    if ca is None and _HUNG_UP in details:
        return (
            f"spoken to in plain text, it hung up; if it speaks TLS, name its authority: {details}"
        )
    return f"cannot be reached: {details}"


_MEANINGS = (
    ("CERTIFICATE_VERIFY_FAILED", "expected a certificate that the ca signed, got another"),
    ("WRONG_VERSION_NUMBER", "expected TLS, got plain text"),
)
_HUNG_UP = "Socket closed"


def _authority(ca: Path) -> bytes:
    """The bytes of a file of certificates."""
    try:
        found = ca.read_bytes()
        x509.load_pem_x509_certificates(found)
    except OSError as error:
        raise InvalidParameter(f"ca {ca}: cannot be read: {error.strerror}") from None
    except ValueError:
        raise InvalidParameter(f"ca {ca}: expected a certificate (PEM), got other bytes") from None
    return found


def is_away(error: grpc.RpcError) -> bool:
    """Return whether the error says that an aggregator is away and may come back."""
    away = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.UNKNOWN)
    return isinstance(error, grpc.Call) and error.code() in away


def is_cut_off(error: grpc.RpcError) -> bool:
    """Return whether a call ended without an answer at an aggregator that it had reached."""
    return isinstance(error, grpc.Call) and error.code() is grpc.StatusCode.CANCELLED


def whole_answer(ask: Callable[[], Iterable[T]], sleep_s: Callable[[float], None]) -> list[T]:
    """Return all parts of an answer; one that is cut off is asked for anew, twice at most."""
    for _ in range(_TRIES - 1):
        try:
            return list(ask())
        except grpc.RpcError as error:
            if not is_away(error):
                raise
        sleep_s(_AGAIN_S)
    return list(ask())


def has_timed_out(error: grpc.RpcError) -> bool:
    """Return whether the time of a call was up."""
    return isinstance(error, grpc.Call) and error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
