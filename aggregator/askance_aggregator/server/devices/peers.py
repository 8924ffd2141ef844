"""Limits on callers that have not proved an identity, in all and per address.

gRPC for Python reports the address of a call's peer, and no connection. The outer process limits
connections per address.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

from askance_aggregator.declarations import Key
from askance_aggregator.server.outer.addresses import Network, address_of, group_of
from askance_aggregator.server.outer.held import Held
from askance_client.errors import AskanceError, InvalidParameter


class Overloaded(AskanceError):
    """The service has more to do than its limits allow; the caller may call again later."""


@dataclass(frozen=True, slots=True)
class PeerLimits:
    """Limits on calls whose caller has not proved an identity."""

    calls: Annotated[
        int, Key("of callers that have not proved an identity, at one time", name="unproven_calls")
    ] = 1_024
    calls_per_address: Annotated[
        int,
        Key(
            "of these, per IPv4 address or IPv6 network of 64 bits",
            name="unproven_calls_per_address",
        ),
    ] = 256
    trusted: Annotated[
        frozenset[Network],
        Key(
            'addresses and networks of proxies, such as "192.0.2.10" or "2001:db8::/64": they stand'
            " for many callers, and are exempt from the limit per address",
            name="trusted_proxies",
        ),
    ] = frozenset()

    def __post_init__(self) -> None:
        for name, number in (("calls", self.calls), ("calls_per_address", self.calls_per_address)):
            if number < 1:
                raise InvalidParameter(f"{name}: expected 1 or more, got {number}")


class Peers:
    """Counter of the calls that are at work for callers without a proven identity.

    Used in one event loop. It keeps nothing about an address that has no call at work.
    """

    def __init__(self, limits: PeerLimits) -> None:
        self._limits = limits
        self.calls: Held[str] = Held()  # at work, by address; of "" are those without a limit

    def change(self, limits: PeerLimits) -> None:
        """Keep other limits from now on; calls at work go on."""
        self._limits = limits

    @contextmanager
    def unproven(self, peer: str) -> Iterator[None]:
        """Count a call for the length of a block.

        Raises:
          Overloaded: a limit is reached; the call is not counted.
        """
        if self.calls.total >= self._limits.calls:
            raise Overloaded("calls: expected fewer callers without a proven identity")
        group = self._group(peer)
        if group and self.calls.of(group) >= self._limits.calls_per_address:
            raise Overloaded("calls: expected fewer calls from this address")
        with self.calls.hold(group):
            yield

    def _group(self, peer: str) -> str:
        """Return the name under which a peer's calls are counted; "" if they are not limited."""
        address = address_of(peer)
        if address is None:
            return peer.partition(":")[0]
        return group_of(address, self._limits.trusted)
