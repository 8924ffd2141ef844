"""Table `[callers]` of a configuration: names and roles of those who call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from askance_aggregator.numbers import at_least_one
from askance_aggregator.server.callers import Caller, OidcSettings, Role, TokenCallers
from askance_aggregator.server.callers.key_sources import key_source
from askance_aggregator.server.process.files import NotOperable
from askance_client.errors import InvalidParameter
from askance_client.printable import unknown_text, value_text
from askance_client.toml_tables import TomlTable, a_text

_PUBLIC_KEY_BYTES = 32
_MAX_NAME = 64  # characters; a name stands in each entry of the audit log
_LEEWAY_S = 60
_MAX_LEEWAY_S = 300  # as far as the clock of a caller who signs may be off
T = TypeVar("T")
_SIGNING = (Role.ANALYST, Role.ADMIN)  # roles that submit studies


@dataclass(frozen=True, slots=True)
class CallerSettings:
    """Callers that the operator has named.

    Args:
      named: callers by an Ed25519 key, each with a name and a role.
      oidc: callers by tokens of an issuer; None: no tokens are accepted.
      folder: what the relative path of the issuer's keys is relative to.
    """

    named: tuple[Caller, ...] = ()
    oidc: OidcSettings | None = None
    folder: Path = Path()

    @property
    def signing(self) -> frozenset[bytes]:
        """Keys of the callers whose studies are accepted."""
        by_token = self.oidc.signing_keys.values() if self.oidc else ()
        named = (caller.key for caller in self.named if caller.role in _SIGNING)
        return frozenset((*named, *by_token))

    def tokens(self, now_s: Callable[[], int]) -> TokenCallers | None:
        """Return the callers by tokens; None if no tokens are accepted.

        Args:
          now_s: the time, in whole seconds since 1970, UTC.

        Raises:
          NotOperable: the extra oidc is not installed.
        """
        if self.oidc is None:
            return None
        try:
            from askance_aggregator.server.callers.bearer import BearerCallers
            from askance_aggregator.server.callers.issuer_keys import IssuerKeys
        except ImportError as error:
            raise NotOperable(
                f"callers.oidc: expected joserfc, got {error} (pip install 'askance[oidc]')"
            ) from None
        source = key_source(self.oidc.jwks, self.folder)
        return BearerCallers(self.oidc, IssuerKeys(source, now_s))

    def check_analysts(self, analysts: Collection[bytes]) -> None:
        """Check that no analyst's key has a role that submits no studies.

        Args:
          analysts: the keys of `[analysts]`.

        Raises:
          InvalidParameter: one has.
        """
        for caller in self.named:
            if caller.key in analysts and caller.role not in _SIGNING:
                raise InvalidParameter(
                    f"callers.keys: expected the role analyst or admin for {caller.name}, whose key"
                    f" stands in analysts.keys too, got {caller.role}"
                )


def read_callers(table: TomlTable, folder: Path) -> CallerSettings:
    """Read the table `[callers]`.

    Args:
      table: the table.
      folder: what relative paths are relative to.

    Raises:
      InvalidParameter: something in it does not belong there, or a name or key stands there twice.
    """
    rows = table.get("keys", _tables) or []
    named = [_caller(row, f"{table.place('keys')}[{place}]") for place, row in enumerate(rows)]
    for what, found in (
        ("names", [caller.name for caller in named]),
        ("keys", [caller.key.hex() for caller in named]),
    ):
        twice = next((value for place, value in enumerate(found) if value in found[:place]), None)
        if twice is not None:
            raise InvalidParameter(
                f"{table.place('keys')}: expected distinct {what}, got {value_text(twice)} twice"
            )
    oidc = table.table("oidc")
    return CallerSettings(tuple(named), None if oidc is None else _oidc(oidc, folder), folder)


def _oidc(table: TomlTable, folder: Path) -> OidcSettings:
    def source(value: object) -> str:
        text = a_text(value)
        key_source(text, folder)
        return text

    return OidcSettings(
        issuer=table.need("issuer", a_text),
        audience=table.need("audience", a_text),
        jwks=table.need("jwks", source),
        roles=table.need("roles", lambda value: _by_text(value, role)),
        role_claim=table.get("role_claim", a_text) or "roles",
        name_claim=table.get("name_claim", a_text) or "sub",
        leeway_s=table.get("leeway_s", _leeway) or _LEEWAY_S,
        signing_keys=table.get(
            "analysts", lambda value: _by_text(value, lambda key: public_key(a_text(key)))
        )
        or {},
    )


def _leeway(value: object) -> int:
    seconds = at_least_one(value)
    if seconds > _MAX_LEEWAY_S:
        raise InvalidParameter(f"expected at most {_MAX_LEEWAY_S} seconds, got {seconds}")
    return seconds


def _by_text(value: object, read: Callable[[object], T]) -> dict[str, T]:
    if not isinstance(value, dict) or not value:
        raise InvalidParameter(f"expected a table with an entry or more, got {value_text(value)}")
    return {name: _entry(name, found, read) for name, found in value.items()}


def _entry(name: str, value: object, read: Callable[[object], T]) -> T:
    try:
        return read(value)
    except InvalidParameter as error:
        raise InvalidParameter(f"{value_text(name)}: {error}") from None


def public_key(text: str) -> bytes:
    """Parse an Ed25519 public key in hexadecimal digits.

    Raises:
      InvalidParameter: another number of digits, or other characters.
    """
    digits = 2 * _PUBLIC_KEY_BYTES
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != _PUBLIC_KEY_BYTES or len(text) != digits:
        raise InvalidParameter(
            f"expected {digits} hexadecimal digits per key, got {len(text)} characters"
        )
    return key


def role(value: object) -> Role:
    """Parse the name of a role.

    Raises:
      InvalidParameter: there is no such role.
    """
    text = a_text(value)
    if text not in list(Role):
        raise InvalidParameter(unknown_text(text, list(Role)))
    return Role(text)


def _caller(content: Mapping[str, Any], place: str) -> Caller:
    row = TomlTable(content, place)
    name, key = row.need("name", _name), row.need("key", lambda value: public_key(a_text(value)))
    caller = Caller(name, row.need("role", role), key)
    row.finish()
    return caller


def _name(value: object) -> str:
    text = a_text(value)
    if len(text) > _MAX_NAME or not text.isprintable():
        raise InvalidParameter(
            f"expected 1 to {_MAX_NAME} printable characters, got {value_text(text)}"
        )
    return text


def _tables(value: object) -> list[Mapping[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise InvalidParameter(
            f"expected tables, each under [[callers.keys]], got {value_text(value)}"
        )
    return value
