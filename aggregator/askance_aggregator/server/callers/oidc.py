"""Settings of tokens that an OpenID Connect issuer gives to callers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from askance_aggregator.server.callers.roles import Role


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """Tokens that are accepted.

    Args:
      issuer: what the claim `iss` must be.
      audience: what the claim `aud` must hold.
      jwks: file, or URL, of the issuer's public keys.
      roles: the role of each value of the claim, in the order in which they are tried.
      role_claim: name of the claim that has a caller's roles; dots lead into objects.
      name_claim: name of the claim that identifies a caller, for the audit log.
      leeway_s: seconds by which the issuer's clock may differ.
      signing_keys: the analyst's public key of each caller who has one, by the caller's name.
    """

    issuer: str
    audience: str
    jwks: str
    roles: Mapping[str, Role]
    role_claim: str = "roles"
    name_claim: str = "sub"
    leeway_s: int = 60
    signing_keys: Mapping[str, bytes] = field(default_factory=dict)
