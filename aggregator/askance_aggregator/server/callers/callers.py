"""Identities of callers, as the operator has configured them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Protocol

from askance_aggregator.analyst.calls import CallRefused
from askance_aggregator.declarations import Key
from askance_aggregator.numbers import at_least_one
from askance_aggregator.server.callers.key_sources import source_text
from askance_aggregator.server.callers.roles import RULES, Role, Scope
from askance_client.errors import InvalidParameter

_SHOWN_DIGITS = 16  # of a key that has no name
BY_TOKEN = "oidc "  # before the name of a caller who is known by a token
_MAX_LEEWAY_S = 300  # as far as the clock of a caller who signs may be off


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller who is known.

    Args:
      name: of the caller, in the audit log; no secret.
      key: the Ed25519 public key that signs the caller's studies or approvals, 32 bytes; empty: it
        has none.
    """

    name: str
    role: Role
    key: bytes = b""

    @property
    def person(self) -> str:
        """The name without a word on how it was proven."""
        return self.name.removeprefix(BY_TOKEN)


def _leeway(value: object, _: Path) -> int:
    seconds = at_least_one(value)
    if seconds > _MAX_LEEWAY_S:
        raise InvalidParameter(f"expected at most {_MAX_LEEWAY_S} seconds, got {seconds}")
    return seconds


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """Tokens of an OpenID Connect issuer that are accepted."""

    issuer: Annotated[str, Key("what the claim iss must be", '"https://id.example.org"')]
    audience: Annotated[str, Key("what the claim aud must hold", '"askance"')]
    jwks: Annotated[
        str,
        Key(
            "the issuer's public keys: https://..., or a file",
            '"https://id.example.org/jwks.json"',
            read=source_text,
        ),
    ]
    roles: Annotated[
        Mapping[str, Role],
        Key(
            "value of the claim = role; the first that a token has counts",
            '{ admins = "admin" }',
        ),
    ]
    role_claim: Annotated[str, 'dots lead into objects: "realm_access.roles"'] = "roles"
    name_claim: Annotated[str, "stands in the audit log"] = "sub"
    leeway_s: Annotated[
        int, Key("seconds by which the issuer's clock may differ", read=_leeway)
    ] = 60
    signing_keys: Annotated[
        Mapping[str, bytes],
        Key(
            "name = the key that signs this analyst's studies",
            '{ ann = "64 hexadecimal digits" }',
            name="analysts",
        ),
    ] = field(default_factory=dict)
    approving_keys: Annotated[
        Mapping[str, bytes],
        Key(
            "by name, the key that signs this approver's approvals",
            '{ bob = "64 hexadecimal digits" }',
            name="approvers",
        ),
    ] = field(default_factory=dict)

    def names_of(self, key: bytes) -> frozenset[str]:
        """Return the names of the callers by tokens whose key it is."""
        named = (*self.signing_keys.items(), *self.approving_keys.items())
        return frozenset(name for name, own in named if own == key)

    def may_sign_approvals(self, name: str, key: bytes) -> bool:
        """Return whether it is the key of an approver, or of an analyst who may be administrator.

        Which role a name has is known from its tokens alone.
        """
        return key in (self.approving_keys.get(name), self.signing_keys.get(name))


class TokenCallers(Protocol):
    """Identities by bearer tokens."""

    def by_token(self, token: str) -> Caller:
        """Return the caller of a token; may wait for the issuer.

        Raises:
          CallRefused: the token is not valid now, or gives its caller no role.
        """
        ...

    def names_of(self, key: bytes) -> frozenset[str]:
        """Return the names of the callers by tokens whose key it is."""
        ...

    def may_sign_approvals(self, name: str, key: bytes) -> bool:
        """Return whether a key is that of a caller by tokens who may be an approver."""
        ...


class NoTokens:
    """Identities by bearer tokens of an aggregator that accepts none."""

    def by_token(self, token: str) -> Caller:
        raise CallRefused(
            "bad-token", "token: expected a signed call, for no issuer is configured, got a token"
        )

    def names_of(self, key: bytes) -> frozenset[str]:
        return frozenset()

    def may_sign_approvals(self, name: str, key: bytes) -> bool:
        return False


class Callers:
    """All callers who are known, by an Ed25519 key or by a bearer token.

    Args:
      analysts: returns the keys whose studies are accepted; asked at each call, so that the set may
        change. A key among them that has no other name and role is an analyst's.
      named: callers with a name and a role of their own, each with a key.
      tokens: callers by bearer tokens.
      names: returns names of analysts by their keys; asked at each call too.
    """

    def __init__(
        self,
        analysts: Callable[[], frozenset[bytes]],
        named: Iterable[Caller] = (),
        tokens: TokenCallers | None = None,
        *,
        names: Callable[[], Mapping[bytes, str]] = dict,
    ) -> None:
        self._analysts = analysts
        self._names = names
        self._named = {caller.key: caller for caller in named}
        self.tokens: TokenCallers = tokens or NoTokens()

    def by_key(self, key: bytes) -> Caller | None:
        """Return the caller of a public key; None if the key is not known."""
        named = self._named.get(key)
        if named is not None:
            return named
        if key in self._analysts():
            name = self._names().get(key) or f"key {key.hex()[:_SHOWN_DIGITS]}"
            return Caller(name, Role.ANALYST, key)
        return None

    def names_of(self, key: bytes) -> frozenset[str]:
        """Return all names that the operator gave to a key."""
        named = self._named.get(key)
        own = {self._names().get(key, ""), "" if named is None else named.person} - {""}
        return self.tokens.names_of(key) | own

    def may_approve(self, name: str, key: bytes) -> bool | None:
        """Return whether the caller of that name and key may approve studies now.

        None: the operator gave that name to no such key.
        """
        named = self._named.get(key)
        if named is not None and named.person == name:
            return RULES["Analysts/Approve"].scope(named.role) is not Scope.NONE
        if self.tokens.may_sign_approvals(name, key):
            return True
        return False if name in self.names_of(key) else None
