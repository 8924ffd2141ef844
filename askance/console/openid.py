"""Login by an OpenID Connect issuer: the authorization code flow with PKCE, and a person's tokens.

The issuer's addresses come from its discovery document. An ID token is believed if its signature,
issuer, audience, times and nonce hold, by the checks of the aggregator (`server.callers.bearer`).
What a login begins with (state, nonce, verifier) follows from a cookie of the browser and a key of
this process, so nothing is kept for a browser that never comes back. No error shows a token.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import quote_plus, urlencode

from askance.console.sessions import Secrets
from askance_aggregator.analyst import CallRefused
from askance_aggregator.server.callers.bearer import IssuerKeys, checked_claims
from askance_aggregator.server.callers.key_sources import MAX_SET_BYTES, KeyAddress, fetch
from askance_aggregator.urls import check_url
from askance_client.errors import InvalidParameter

LOGIN_S = 600  # between the beginning of a login and its end
_DISCOVERY = "/.well-known/openid-configuration"
_DISCOVERED_S = 3_600  # for which the issuer's addresses are taken as known
_AGAIN_S = 5  # after an issuer did not answer: no caller waits for it before that
_LEEWAY_S = 60  # by which the issuer's clock may differ
_RENEW_S = 30  # before its end a token is renewed
_SECRET_BYTES = 32
_FAILED = 500  # statuses of HTTP from here on are the server's failures
_MOST_USED = 10_000  # states of logins that have ended; a login lasts ten minutes
_ERROR = re.compile(r"[a-z_]{1,40}")  # a word of RFC 6749, which may be shown


class ForwardedToken(StrEnum):
    """Token of a person that is sent to the aggregator."""

    ID = "id-token"
    ACCESS = "access-token"


@dataclass(frozen=True, slots=True)
class IssuerSettings:
    """Issuer by which people log in, and the console as its client.

    Args:
      issuer: its URL, as its tokens have it in the claim iss; https, or http on this machine.
      client_id: of this console, at the issuer.
      client_secret: of this console; empty: a public client, which PKCE alone protects.
      scope: words that are asked for, with blanks between them; "openid" is among them.
      forwarded: the token that the aggregator gets.
    """

    issuer: str
    client_id: str
    client_secret: str = field(default="", repr=False)
    scope: str = "openid"
    forwarded: ForwardedToken = ForwardedToken.ID

    def __post_init__(self) -> None:
        try:
            check_url(self.issuer)
        except InvalidParameter as error:
            raise InvalidParameter(f"--oidc-issuer: {error}") from None
        if not self.client_id:
            raise InvalidParameter("--oidc-client: expected the console's id at the issuer, got ''")
        if "openid" not in self.scope.split():
            raise InvalidParameter(f"--oidc-scope: expected openid in it, got {self.scope!r}")


@dataclass(frozen=True, slots=True)
class PersonTokens:
    """Tokens of one person."""

    subject: str  # the claim sub
    forwarded: str = field(repr=False)  # what the aggregator gets
    ends_unix_s: int
    refresh: str = field(default="", repr=False)  # gets further ones; empty: there are none


class LoginRefused(CallRefused):
    """A login that does not come to its end; the message is for the person, and quotes no token."""


@dataclass(frozen=True, slots=True)
class BegunLogin:
    """Values of one login, which follow from the browser's cookie."""

    state: str
    nonce: str
    verifier: str

    @property
    def challenge(self) -> str:
        """Return the code challenge of PKCE, by S256."""
        return _text(hashlib.sha256(self.verifier.encode()).digest())


class BegunLogins:
    """Logins that have begun; nothing is kept but the states of those that have ended.

    Args:
      now_s: the time in whole seconds since 1970, UTC.
    """

    def __init__(self, secrets: Secrets, now_s: Callable[[], int]) -> None:
        self._secrets = secrets
        self._key = secrets(_SECRET_BYTES)
        self._now_s = now_s
        self._used: dict[str, None] = {}

    def begin(self) -> tuple[str, BegunLogin]:
        """Return the cookie of a new login, and its values."""
        cookie = f"{self._now_s()}.{self._secrets(_SECRET_BYTES).hex()}"
        return cookie, self._of(cookie)

    def end(self, cookie: str, state: str) -> BegunLogin:
        """Return the values of a login whose state came back; a second time is refused."""
        begun, at = self._of(cookie), cookie.partition(".")[0]
        is_own = bool(cookie) and hmac.compare_digest(begun.state.encode(), state.encode())
        if not is_own or not 0 <= self._now_s() - int(at) < LOGIN_S:
            raise LoginRefused(
                "wrong-state",
                "login: expected it to end in the browser that began it, within ten minutes",
            )
        if state in self._used:
            raise LoginRefused("replayed", "login: expected one that has not ended, got it again")
        self._used[state] = None
        while len(self._used) > _MOST_USED:
            self._used.pop(next(iter(self._used)))
        return begun

    def _of(self, cookie: str) -> BegunLogin:
        def derived(word: bytes) -> str:
            return _text(hmac.digest(self._key, word + b"\0" + cookie.encode(), "sha256"))

        return BegunLogin(derived(b"state"), derived(b"nonce"), derived(b"verifier"))


class OpenIdIssuer:
    """Calls of an issuer, for any thread; each waits for it.

    Args:
      now_s: the time in whole seconds since 1970, UTC.
    """

    def __init__(self, settings: IssuerSettings, now_s: Callable[[], int]) -> None:
        self.settings = settings
        self._now_s = now_s
        self._lock = threading.Lock()
        self._found: Mapping[str, str] = {}
        self._found_s: int | None = None
        self._away_s: int | None = None  # when the document could not be had
        self._keys: IssuerKeys | None = None

    def address(self, login: BegunLogin, redirect: str) -> str:
        """Return the address to which a browser goes to log in."""
        start = self._addresses()["authorization_endpoint"]
        query = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": redirect,
            "scope": self.settings.scope,
            "state": login.state,
            "nonce": login.nonce,
            "code_challenge": login.challenge,
            "code_challenge_method": "S256",
        }
        return f"{start}{'&' if '?' in start else '?'}{urlencode(query)}"

    def redeem(self, code: str, login: BegunLogin, redirect: str) -> PersonTokens:
        """Return the tokens for a code."""
        answer = self._tokens(
            {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": redirect,
                "code_verifier": login.verifier,
            }
        )
        claims = self._checked(answer)
        nonce = claims.get("nonce")
        if not isinstance(nonce, str) or not hmac.compare_digest(
            nonce.encode(), login.nonce.encode()
        ):
            raise LoginRefused("bad-token", "login: expected an ID token with this login's nonce")
        return self._of(answer, claims)

    def renew(self, tokens: PersonTokens) -> PersonTokens:
        """Return further tokens of a person."""
        answer = self._tokens({"grant_type": "refresh_token", "refresh_token": tokens.refresh})
        if "id_token" not in answer and self.settings.forwarded is ForwardedToken.ACCESS:
            return self._of(answer, {"sub": tokens.subject}, tokens.refresh)
        claims = self._checked(answer)
        if claims["sub"] != tokens.subject:
            raise LoginRefused("bad-token", "login: expected a token of the same person")
        return self._of(answer, claims, tokens.refresh)

    def check_sender(self, issuer: str | None) -> None:
        """Raise LoginRefused if an answer names another issuer (RFC 9207)."""
        if issuer is not None and issuer != self.settings.issuer:
            raise LoginRefused("wrong-issuer", "login: expected an answer of this console's issuer")

    def _of(
        self, answer: Mapping[str, Any], claims: Mapping[str, Any], refresh: str = ""
    ) -> PersonTokens:
        forwarded, ends_s = answer.get("id_token"), claims.get("exp", 0)
        if self.settings.forwarded is ForwardedToken.ACCESS:
            forwarded, lasts = answer.get("access_token"), answer.get("expires_in")
            ends_s = self._now_s() + (lasts if isinstance(lasts, int) else 0)
        given = answer.get("refresh_token", refresh)
        if not isinstance(forwarded, str) or not isinstance(given, str):
            raise LoginRefused("bad-token", "login: expected tokens that are texts")
        return PersonTokens(str(claims["sub"]), forwarded, int(ends_s), given)

    def _checked(self, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the claims of an answer's ID token, which holds."""
        token, keys, client = answer.get("id_token"), self._keys, self.settings.client_id
        if not isinstance(token, str) or keys is None:
            raise LoginRefused("bad-token", "login: expected an ID token, got none")
        try:
            claims = checked_claims(
                token, keys, issuer=self.settings.issuer, audience=client, leeway_s=_LEEWAY_S
            )
        except CallRefused as error:
            raise LoginRefused(error.reason, f"login: ID {error}") from None
        several = isinstance(claims.get("aud"), list) and len(claims["aud"]) > 1
        if claims.get("azp", None if several else client) != client:
            raise LoginRefused("bad-token", "login: expected an ID token for this console (azp)")
        if not isinstance(claims.get("sub"), str) or not claims["sub"]:
            raise LoginRefused("bad-token", "login: expected an ID token of a person (sub)")
        return claims

    def _tokens(self, form: Mapping[str, str]) -> Mapping[str, Any]:
        """Return the answer of the issuer's endpoint of tokens."""
        settings = self.settings
        sent, headers = {**form, "client_id": settings.client_id}, {"Accept": "application/json"}
        if settings.client_secret:
            pair = f"{quote_plus(settings.client_id)}:{quote_plus(settings.client_secret)}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        request = urllib.request.Request(
            self._addresses()["token_endpoint"], urlencode(sent).encode(), headers
        )
        try:
            return _object(fetch(request))
        except urllib.error.HTTPError as error:
            with error:
                said = error.read(MAX_SET_BYTES)
            if error.code >= _FAILED:
                raise _away() from None
            raise LoginRefused(
                "issuer-refused", f"login: the issuer refused it ({_error_word(said)})"
            ) from None
        except (OSError, ValueError):
            raise _away() from None

    def _addresses(self) -> Mapping[str, str]:
        """Return the issuer's addresses; its keys are known from then on."""
        with self._lock:
            if self._found_s is None or self._now_s() - self._found_s >= _DISCOVERED_S:
                if _is_recent(self._away_s, self._now_s()):
                    return self._found_before()
                try:
                    found = _object(fetch(self.settings.issuer.rstrip("/") + _DISCOVERY))
                    names = ("authorization_endpoint", "token_endpoint", "jwks_uri")
                    addresses = {name: check_url(str(found[name])) for name in names}
                except (OSError, ValueError, LookupError, TypeError, InvalidParameter):
                    self._away_s = self._now_s()
                    return self._found_before()
                if found.get("issuer") != self.settings.issuer:
                    raise LoginRefused(
                        "wrong-issuer", "login: expected the document of the issuer itself"
                    )
                if addresses["jwks_uri"] != self._found.get("jwks_uri"):
                    self._keys = IssuerKeys(KeyAddress(addresses["jwks_uri"]), self._now_s)
                self._found, self._found_s = addresses, self._now_s()
            return self._found

    def _found_before(self) -> Mapping[str, str]:
        """Return the addresses of an hour ago; raise LoginRefused if there are none."""
        if self._found_s is None:
            raise _away() from None
        return self._found


class PersonSource:
    """Source of a person's token for each call; it renews one that ends. For any thread."""

    def __init__(
        self,
        issuer: OpenIdIssuer,
        tokens: PersonTokens,
        now_s: Callable[[], int],
    ) -> None:
        self._issuer = issuer
        self._tokens = tokens
        self._now_s = now_s
        self._ended: Callable[[], None] = lambda: None
        self._away_s: int | None = None  # when the issuer did not answer
        self._lock = threading.Lock()

    def on_end(self, ended: Callable[[], None]) -> None:
        """Call `ended` when no further token can be had."""
        self._ended = ended

    def current(self) -> str:
        """Return the token of the next call."""
        with self._lock:
            now_s = self._now_s()
            left_s = self._tokens.ends_unix_s - now_s
            is_due = left_s <= _RENEW_S and bool(self._tokens.refresh)
            if is_due and not _is_recent(self._away_s, now_s):
                try:
                    self._tokens = self._issuer.renew(self._tokens)
                    left_s = self._tokens.ends_unix_s - self._now_s()
                except LoginRefused as error:
                    if error.reason != "issuer-away":
                        left_s = 0
                    self._away_s = self._now_s()
            if left_s <= 0:
                self._ended()
                raise CallRefused("bad-token", "session: expected one that has not ended: log in")
            return self._tokens.forwarded


def _object(content: bytes) -> dict[str, Any]:
    """Return a JSON object of bounded size; raise ValueError for anything else."""
    found = json.loads(content) if len(content) <= MAX_SET_BYTES else None
    if not isinstance(found, dict):
        raise ValueError("expected a JSON object")
    return found


def _error_word(content: bytes) -> str:
    try:
        return error_word(str(_object(content).get("error")))
    except ValueError:
        return "no reason given"


def error_word(text: str) -> str:
    """Return an issuer's word for an error, if it is one that may be shown."""
    return text if _ERROR.fullmatch(text) else "no reason given"


def _is_recent(at_s: int | None, now_s: int) -> bool:
    return at_s is not None and 0 <= now_s - at_s < _AGAIN_S


def _away() -> LoginRefused:
    return LoginRefused("issuer-away", "login: expected the issuer to answer: try again later")


def _text(data: bytes) -> str:
    """Return base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
