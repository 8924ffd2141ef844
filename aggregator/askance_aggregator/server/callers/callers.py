"""Identities of callers, as the operator has configured them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from askance_aggregator.analyst.calls import CallRefused
from askance_aggregator.server.callers.roles import Role

_SHOWN_DIGITS = 16  # of a key that has no name


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller who is known.

    Args:
      name: of the caller, in the audit log; no secret.
      role: what the caller may do.
      key: the Ed25519 public key that signs the caller's studies, 32 bytes; empty: it has none.
    """

    name: str
    role: Role
    key: bytes = b""


class TokenCallers(Protocol):
    """Identities by bearer tokens."""

    def by_token(self, token: str) -> Caller:
        """Return the caller of a token; may wait for the issuer.

        Raises:
          CallRefused: the token is not valid now, or gives its caller no role.
        """
        ...


class NoTokens:
    """Identities by bearer tokens of an aggregator that accepts none."""

    def by_token(self, token: str) -> Caller:
        """Refuse a token."""
        raise CallRefused(
            "bad-token", "token: expected a signed call, for no issuer is configured, got a token"
        )


class Callers:
    """All callers who are known, by an Ed25519 key or by a bearer token.

    Args:
      analysts: returns the keys whose studies are accepted; asked at each call, so that the set may
        change. A key among them that has no other name and role is an analyst's.
      named: callers with a name and a role of their own, each with a key.
      tokens: callers by bearer tokens.
    """

    def __init__(
        self,
        analysts: Callable[[], frozenset[bytes]],
        named: Iterable[Caller] = (),
        tokens: TokenCallers | None = None,
    ) -> None:
        self._analysts = analysts
        self._named = {caller.key: caller for caller in named}
        self.tokens: TokenCallers = tokens or NoTokens()

    def by_key(self, key: bytes) -> Caller | None:
        """Return the caller of a public key; None if the key is not known."""
        named = self._named.get(key)
        if named is not None:
            return named
        if key in self._analysts():
            return Caller(f"key {key.hex()[:_SHOWN_DIGITS]}", Role.ANALYST, key)
        return None
