"""OpenID Connect issuer on loopback, with code flow and PKCE, and consoles whose people log in."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from askance.console.application import application
from askance.console.link import AggregatorLink
from askance.console.openid import ForwardedToken, IssuerSettings, OpenIdIssuer
from askance.console.server import ConsoleServer, ConsoleSettings
from askance.console.shared import Console
from askance_aggregator.analyst import connect
from askance_aggregator.server.callers import OidcSettings, Role
from askance_aggregator.server.callers.bearer import BearerCallers, IssuerKeys
from askance_aggregator.server.callers.key_sources import key_source
from askance_aggregator.server.studies import SubmissionLimits
from askance_client.addresses import Address
from askance_client.codec import digest_of
from tests.aggregator.server.callers.issuer import NOW_S, Issuer
from tests.aggregator.server.callers.role_server import KEYS, public, served
from tests.askance.console.consoles import Answer, Visitor

CLIENT = "console"
SECRET = "a secret of the console's: +/%"
_PATIENCE_S = 20.0
ROLES = {
    "admins": Role.ADMIN,
    "data": Role.ANALYST,
    "ops": Role.OPERATOR,
    "readers": Role.VIEWER,
    "reviewers": Role.APPROVER,
}


@dataclass(frozen=True, slots=True)
class _Code:
    """Code that waits to be redeemed: what it was given for."""

    person: str
    redirect: str
    challenge: str
    nonce: str


@dataclass
class Clock:
    """Time of everything: seconds since 1970."""

    now: int = NOW_S


class OpenIdServer(Issuer):
    """Issuer by the book; `claims` changes those of its ID tokens, and `document` its discovery.

    `people` has the group of each person, `person` is who is logged in at the issuer's own page.
    """

    def __init__(self, port: int, clock: Clock) -> None:
        super().__init__(port)
        self.clock = clock
        self.people = {
            "ann": "data",
            "root": "admins",
            "vera": "readers",
            "otto": "ops",
            "bob": "reviewers",
        }
        self.person = "ann"
        self.lifetime_s = 300
        self.algorithm = "ES256"
        self.claims: dict[str, Any] = {}
        self.document: dict[str, Any] = {}
        self.refreshes = False
        self.is_away = False
        self.forged: Callable[[str], str] = lambda token: token
        self.codes: dict[str, _Code] = {}
        self.refresh: dict[str, str] = {}
        self.redeemed = 0
        self.asked = 0  # requests of all kinds

    def discovery(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/jwks",
            **self.document,
        }

    def authorize(self, query: dict[str, str]) -> str:
        """Return where the browser goes after the person has logged in."""
        assert query["response_type"] == "code"
        assert query["client_id"] == CLIENT
        assert query["code_challenge_method"] == "S256"
        assert "openid" in query["scope"].split()
        code = secrets.token_urlsafe(16)
        self.codes[code] = _Code(
            self.person, query["redirect_uri"], query["code_challenge"], query["nonce"]
        )
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def redeem(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        """Return status and answer of the endpoint of tokens."""
        pair = base64.b64decode(authorization.removeprefix("Basic ")).decode()
        if pair != "console:a+secret+of+the+console%27s%3A+%2B%2F%25":
            return 401, {"error": "invalid_client"}
        if form["grant_type"] == "refresh_token":
            person = self.refresh.pop(form["refresh_token"], "")
            return (200, self._answer(person, None)) if person else (400, _INVALID)
        code = self.codes.pop(form["code"], None)
        if code is None or form["redirect_uri"] != code.redirect:
            return 400, _INVALID
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != code.challenge:
            return 400, _INVALID
        return 200, self._answer(code.person, code.nonce)

    def _answer(self, person: str, nonce: str | None) -> dict[str, Any]:
        self.redeemed += 1
        token = self.token(
            self.algorithm,
            **{
                "aud": CLIENT,
                "sub": person,
                "exp": self.clock.now + self.lifetime_s,
                "roles": [self.people[person]],
                "nonce": nonce,
                **self.claims,
            },
        )
        end_s, roles = self.clock.now + 60, [self.people[person]]
        access = self.token(aud=CLIENT, sub=person, exp=end_s, roles=roles)
        answer = {"id_token": self.forged(token), "access_token": access, "expires_in": 60}
        if self.refreshes:
            handle = secrets.token_urlsafe(8)
            self.refresh[handle] = person
            answer["refresh_token"] = handle
        return answer


_INVALID = {"error": "invalid_grant", "error_description": "<script>no</script>"}


@contextmanager
def issuing(clock: Clock) -> Iterator[OpenIdServer]:
    """Serve an issuer until the end of the block."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.asked += 1
            parts = urlsplit(self.path)
            if issuer.is_away:
                self._answer(503, b"")
            elif parts.path == "/authorize":
                query = {name: values[0] for name, values in parse_qs(parts.query).items()}
                self._answer(302, b"", issuer.authorize(query))
            elif parts.path == "/.well-known/openid-configuration":
                self._answer(200, json.dumps(issuer.discovery()).encode())
            else:
                self._answer(200, issuer.answer())

        def do_POST(self) -> None:
            issuer.asked += 1
            length = int(self.headers["Content-Length"])
            fields = parse_qs(self.rfile.read(length).decode())
            form = {name: values[0] for name, values in fields.items()}
            status, answer = issuer.redeem(form, self.headers.get("Authorization", ""))
            self._answer(503 if issuer.is_away else status, json.dumps(answer).encode())

        def _answer(self, status: int, body: bytes, location: str = "") -> None:
            self.send_response(status)
            if location:
                self.send_header("Location", location)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing on stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    issuer = OpenIdServer(server.server_port, clock)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass(slots=True)
class Browser(Visitor):
    """A browser that keeps cookies by their names, and goes to the issuer and back."""

    jar: dict[str, str] = field(default_factory=dict)

    def request(self, method: str, path: str, body: bytes, headers: Any) -> Answer:
        """Send a request with all cookies; keep those that are set, forget those that end."""
        self.cookie = "; ".join(f"{name}={value}" for name, value in self.jar.items())
        answer = Visitor.request(self, method, path, body, headers)
        for one in answer.headers.get("set-cookie", "").split("\n"):
            pair, _, rest = one.partition(";")
            name, mark, value = pair.partition("=")
            if mark and ("Max-Age=0" in rest or value in ("", '""')):
                self.jar.pop(name, None)
            elif mark:
                self.jar[name] = value
        return answer

    def begin(self) -> str:
        """Begin a login, log in at the issuer, and return the path to which it sends back."""
        there = self.get("/login/begin").headers["location"]
        parts = urlsplit(there)
        import http.client

        connection = http.client.HTTPConnection(parts.netloc, timeout=_PATIENCE_S)
        connection.request("GET", f"{parts.path}?{parts.query}")
        with connection.getresponse() as response:
            back = urlsplit(response.getheader("Location") or "")
        connection.close()
        assert back.netloc == str(self.address)
        return f"{back.path}?{back.query}"

    def log_in(self) -> None:
        """Log in as the issuer's person, and open a page."""
        answer = self.get(self.begin())
        assert answer.status == 200, answer.text
        self.get("/")


@dataclass(slots=True)
class SharedConsole:
    """A console with an issuer.

    Args:
      clock: of the issuer, the aggregator and the console's tokens.
      steady: seconds by which sessions end.
      console: the served one.
      waiting: a study that waits for an approver.
    """

    issuer: OpenIdServer
    clock: Clock
    console: Console
    address: Address
    steady: list[float]
    waiting: str

    def browser(self, person: str = "") -> Browser:
        """Return a new browser; with a person, logged in."""
        made = Browser(self.address)
        if person:
            self.issuer.person = person
            made.log_in()
        return made


@contextmanager
def shared_console(forwarded: ForwardedToken = ForwardedToken.ID) -> Iterator[SharedConsole]:
    """Serve an issuer, an aggregator that knows it, and a console for its people."""
    clock, steady = Clock(), [1_000.0]
    with issuing(clock) as issuer:
        key = public(KEYS[Role.ANALYST])
        settings = OidcSettings(
            issuer.url,
            CLIENT,
            f"{issuer.url}/jwks",
            ROLES,
            signing_keys={"ann": key},
            approving_keys={"bob": public(KEYS[Role.APPROVER])},
        )
        keys = IssuerKeys(key_source(settings.jwks, Path()), lambda: clock.now)
        tokens, rule = BearerCallers(settings, keys), SubmissionLimits(approval=True)
        with served(tokens=tokens, studies=rule) as (aggregator, study):
            waiting = digest_of(study.study).hex()
            yield from _serve(issuer, aggregator, waiting, clock, steady, forwarded)


def _serve(
    issuer: OpenIdServer,
    aggregator: str,
    waiting: str,
    clock: Clock,
    steady: list[float],
    forwarded: ForwardedToken,
) -> Iterator[SharedConsole]:
    server = ConsoleServer(ConsoleSettings(Address("127.0.0.1", 0)))
    settings = IssuerSettings(issuer.url, CLIENT, SECRET, forwarded=forwarded)

    def of_no_person() -> str:
        raise AssertionError("a call without a person")

    with connect(aggregator, bearer_token=of_no_person, now_s=lambda: clock.now) as connection:
        link = AggregatorLink(connection, time.monotonic)
        console = Console(
            link,
            hosts=server.hosts,
            secure=False,
            announce=lambda link: None,
            secrets=secrets.token_bytes,
            clock_s=lambda: steady[0],
            issuer=OpenIdIssuer(settings, lambda: clock.now),
            now_s=lambda: clock.now,
        )
        ready = threading.Event()
        thread = threading.Thread(target=server.run, args=(application(console), ready.set))
        thread.start()
        try:
            assert ready.wait(_PATIENCE_S)
            address = Address("127.0.0.1", server.port)
            yield SharedConsole(issuer, clock, console, address, steady, waiting)
        finally:
            server.stop()
            thread.join(_PATIENCE_S)
            link.close()
