"""Callers who prove themselves by a bearer token of an OpenID Connect issuer.

A token authenticates a call and nothing else: devices answer a study by its analyst's Ed25519
signature. A token is a JSON Web Token, signed by a key of the issuer's set, with one of three
algorithms. Errors and logs never show it.
"""

from __future__ import annotations

import json
import logging
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from joserfc import jwt
from joserfc.errors import ExpiredTokenError, JoseError, SecurityWarning
from joserfc.jwk import GuestProtocol, Key, KeySet

from askance_aggregator.analyst.calls import CallRefused
from askance_aggregator.server.callers.callers import BY_TOKEN, Caller, OidcSettings
from askance_aggregator.server.callers.key_sources import MAX_SET_BYTES, KeySource
from askance_aggregator.server.callers.roles import Role

_FRESH_S = 300  # after which a set is fetched again, so that a key which was withdrawn is forgotten
_AGAIN_S = 30  # between two fetches for a key that is not in the set, or after one that failed
_KEPT_S = 86_400  # for which a set is used while its source fails
_ASYMMETRIC = ("RSA", "EC", "OKP")

_LOGGER = logging.getLogger(__name__)


class IssuerKeys:
    """Keys of an issuer, by their ids; for any thread."""

    def __init__(self, source: KeySource, now_s: Callable[[], int]) -> None:
        self._source = source
        self.now_s = now_s
        self._fetching = threading.Lock()
        self._keys: tuple[Key, ...] = ()
        self._fetched_s: int | None = None  # when the set was fetched
        self._tried_s: int | None = None  # when the last fetch began

    def by_id(self, kid: str | None) -> Key | None:
        """Return the key of an id; None if there is none. Without an id: the only key.

        The set is fetched when it is old, and when it lacks the id, at most every 30 seconds.
        """
        if self._is_older_than(_FRESH_S):
            self._fetch()
        found = self._found(kid)
        if found is None:
            self._fetch()
            found = self._found(kid)
        return found

    def _found(self, kid: str | None) -> Key | None:
        if self._is_older_than(_KEPT_S):
            return None
        if kid is None:
            return self._keys[0] if len(self._keys) == 1 else None
        return next((key for key in self._keys if key.kid == kid), None)

    def _is_older_than(self, seconds: int) -> bool:
        # By either sign: after a clock was set back, a withdrawn key is no longer known either.
        return self._fetched_s is None or abs(self.now_s() - self._fetched_s) >= seconds

    def _fetch(self) -> None:
        """Fetch the set, unless it was just tried or another thread does; log what fails."""
        if not self._fetching.acquire(blocking=self._fetched_s is None):
            return
        try:
            now_s = self.now_s()
            if self._tried_s is not None and 0 <= now_s - self._tried_s < _AGAIN_S:
                return
            self._tried_s = now_s
            self._keys = _parsed(self._source.read())
            self._fetched_s = now_s
        except (OSError, ValueError, TypeError, LookupError, JoseError) as error:
            what = f"{type(error).__name__}: {error}"[:200]
            _LOGGER.warning("the issuer's keys cannot be fetched", extra={"error": what})
        finally:
            self._fetching.release()


def _parsed(content: bytes) -> tuple[Key, ...]:
    """Return the asymmetric keys of a set; raise ValueError if it is too long, or no set."""
    if len(content) > MAX_SET_BYTES:
        raise ValueError(f"expected at most {MAX_SET_BYTES} bytes, got more")
    found = KeySet.import_key_set(json.loads(content))
    return tuple(key for key in found.keys if key.key_type in _ASYMMETRIC)


ALGORITHMS = ("RS256", "ES256", "EdDSA", "Ed25519")  # the last is RFC 9864's name of EdDSA
MAX_TOKEN_BYTES = 8 * 1024  # gRPC's own limit on the metadata of a call
_MAX_NAME = 128  # characters of the claim that names a caller
# Issuers still say EdDSA; a warning on stderr would stand among the log's lines of JSON.
warnings.filterwarnings("ignore", message="EdDSA is deprecated", category=SecurityWarning)


class BearerCallers:
    """Identities by bearer tokens."""

    def __init__(self, settings: OidcSettings, keys: IssuerKeys) -> None:
        self._settings = settings
        self._keys = keys

    def by_token(self, token: str) -> Caller:
        settings = self._settings
        claims = checked_claims(
            token,
            self._keys,
            issuer=settings.issuer,
            audience=settings.audience,
            leeway_s=settings.leeway_s,
        )
        name = claims.get(self._settings.name_claim)
        if not isinstance(name, str) or not 1 <= len(name) <= _MAX_NAME or not name.isprintable():
            raise _bad_token(f"expected a name in its claim {self._settings.name_claim}")
        role = self._role(claims)
        keys = self._settings.signing_keys
        if role is Role.APPROVER:
            keys = self._settings.approving_keys
        return Caller(f"{BY_TOKEN}{name}", role, keys.get(name, b""))

    def names_of(self, key: bytes) -> frozenset[str]:
        return self._settings.names_of(key)

    def may_sign_approvals(self, name: str, key: bytes) -> bool:
        return self._settings.may_sign_approvals(name, key)

    def _role(self, claims: Mapping[str, Any]) -> Role:
        value: Any = claims
        for part in self._settings.role_claim.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        given = value if isinstance(value, list) else [value]
        for name, role in self._settings.roles.items():
            if name in given:
                return role
        raise CallRefused(
            "no-role",
            f"token: expected one of {_listed(list(self._settings.roles))} in its claim"
            f" {self._settings.role_claim}, found none",
        )


def checked_claims(
    token: str, keys: IssuerKeys, *, issuer: str, audience: str, leeway_s: int
) -> Mapping[str, Any]:
    """Return the claims of a token whose signature, issuer, audience and times hold.

    The algorithm is one of `ALGORITHMS`, whatever the token's header says.

    Raises:
      CallRefused: one of them does not hold; the message does not quote the token.
    """
    if len(token) > MAX_TOKEN_BYTES:
        raise _bad_token(f"expected at most {MAX_TOKEN_BYTES} bytes")
    times = jwt.JWTClaimsRegistry(
        now=keys.now_s,
        leeway=leeway_s,
        exp={"essential": True},
        iss={"essential": True, "value": issuer},
    )

    def key(guest: GuestProtocol) -> Key:
        kid = guest.headers().get("kid")
        found = keys.by_id(kid if isinstance(kid, str) else None)
        if found is None:
            raise _bad_token("expected a key of the issuer's in its header")
        return found

    try:
        claims = jwt.decode(token, key, algorithms=list(ALGORITHMS)).claims
        times.validate(claims)
    except ExpiredTokenError:
        raise _bad_token("expected one that has not expired") from None
    except (JoseError, ValueError, TypeError) as error:
        raise _bad_token(_said(error)) from None
    found = claims.get("aud")
    if audience not in (found if isinstance(found, list) else [found]):
        raise _bad_token("expected the right audience in its claim aud")
    return claims


def _bad_token(expected: str) -> CallRefused:
    return CallRefused("bad-token", f"token: {expected}, got another")


def _said(error: Exception) -> str:
    """Describe a library's error by its class: its text could quote the token."""
    return f"expected a valid one ({type(error).__name__})"


def _listed(names: Sequence[str]) -> str:
    return json.dumps(list(names), ensure_ascii=False)
