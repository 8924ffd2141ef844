"""A console that serves several people: their logins by an issuer, and what each one sees."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from joserfc import jwt
from starlette.requests import Request

from askance.console.application import application
from askance.console.openid import (
    BegunLogins,
    ForwardedToken,
    IssuerSettings,
    LoginRefused,
    OpenIdIssuer,
    PersonTokens,
)
from askance.console.sessions import IDLE_S, ROTATE_S, SESSION_S
from askance.console.shared import Console
from askance_client.errors import InvalidParameter
from tests.aggregator.server.callers.issuer import KINDS, key_of
from tests.askance.console.open_id import Browser, SharedConsole, shared_console


@pytest.fixture(scope="module")
def whole() -> Iterator[SharedConsole]:
    with shared_console() as found:
        yield found


@pytest.fixture
def shared(whole: SharedConsole) -> SharedConsole:
    """The console, with an issuer by the book."""
    issuer = whole.issuer
    issuer.claims, issuer.document, issuer.forged = {}, {}, lambda token: token
    issuer.lifetime_s, issuer.algorithm, issuer.person = 300, "ES256", "ann"
    issuer.refreshes = issuer.is_away = False
    return whole


@pytest.mark.parametrize("algorithm", KINDS)
def test_a_person_logs_in(shared: SharedConsole, algorithm: str) -> None:
    shared.issuer.algorithm = algorithm
    browser = shared.browser()
    assert browser.get("/").headers["location"] == "/login"
    assert "Log in with 127.0.0.1" in browser.get("/login").text
    begun = browser.get("/login/begin")
    query = parse_qs(urlsplit(begun.headers["location"]).query)
    assert query["redirect_uri"] == [f"http://{shared.address}/login/callback"]
    assert {"HttpOnly", "SameSite=lax", "Path=/"} <= set(begun.headers["set-cookie"].split("; "))
    answer = browser.get(browser.begin())
    assert answer.status == 200
    text = browser.get("/studies").text
    assert "<strong>oidc ann</strong>" in text
    assert '<span class="role">analyst</span>' in text


Forge = Callable[[SharedConsole], None]


def changing(**claims: Any) -> Forge:
    def forge(shared: SharedConsole) -> None:
        shared.issuer.claims = claims

    return forge


def forging(forge: Callable[[str], str]) -> Forge:
    def change(shared: SharedConsole) -> None:
        shared.issuer.forged = forge

    return change


def by_another_key(token: str) -> str:
    header, claims = jwt.decode(token, key_of("ES256", "first")).header, jwt_claims(token)
    return jwt.encode(header, claims, key_of("ES256", "another"), algorithms=["ES256"])


def jwt_claims(token: str) -> dict[str, Any]:
    return dict(jwt.decode(token, key_of("ES256", "first")).claims)


def by_no_key(token: str) -> str:
    """Return the token with the algorithm "none"."""
    import base64
    import json

    def part(value: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    return f"{part({'alg': 'none'})}.{part(jwt_claims(token))}."


def away(shared: SharedConsole) -> None:
    shared.issuer.is_away = True


ID_TOKENS: dict[str, tuple[Forge, int, str]] = {
    "another issuer's": (changing(iss="https://id.example.org"), 403, "expected a valid one"),
    "no issuer's": (changing(iss=None), 403, "expected a valid one"),
    "another audience": (changing(aud="another"), 403, "expected the right audience"),
    "no audience": (changing(aud=None), 403, "expected the right audience"),
    "several audiences, and no azp": (changing(aud=["console", "b"]), 403, "for this console"),
    "another azp": (changing(azp="another"), 403, "for this console (azp)"),
    "expired": (changing(exp=1_800_000_000 - 61), 403, "expected one that has not expired"),
    "without an end": (changing(exp=None), 403, "expected a valid one"),
    "not valid yet": (changing(nbf=1_800_000_000 + 61), 403, "expected a valid one"),
    "another login's nonce": (changing(nonce="x" * 43), 403, "with this login&#39;s nonce"),
    "no nonce": (changing(nonce=None), 403, "with this login&#39;s nonce"),
    "no subject": (changing(sub=None), 403, "of a person (sub)"),
    "another key's signature": (forging(by_another_key), 403, "expected a valid one"),
    "no signature": (forging(by_no_key), 403, "expected a valid one"),
    "cut": (forging(lambda token: token[:-4]), 403, "expected a valid one"),
    "no text": (forging(lambda token: 7), 403, "expected an ID token, got none"),  # type: ignore[arg-type,return-value]  # what an issuer may send
    "an issuer that is away": (away, 502, "expected the issuer to answer"),
}


@pytest.mark.parametrize("case", ID_TOKENS)
def test_a_token_that_does_not_hold_begins_no_session(shared: SharedConsole, case: str) -> None:
    forge, status, said = ID_TOKENS[case]
    browser = shared.browser()
    back = browser.begin()
    forge(shared)
    answer = browser.get(back)
    assert (answer.status, said in answer.text) == (status, True), answer.text
    assert browser.jar == {}
    assert browser.get("/studies").headers["location"] == "/login"


def without(name: str) -> Callable[[str, Browser], str]:
    def change(back: str, _: Browser) -> str:
        path, _mark, query = back.partition("?")
        left = {key: one for key, (one,) in parse_qs(query).items() if key != name}
        return f"{path}?{urlencode(left)}"

    return change


def with_(**changed: str) -> Callable[[str, Browser], str]:
    def change(back: str, browser: Browser) -> str:
        path, _, query = back.partition("?")
        found = {key: one for key, (one,) in parse_qs(query).items()}
        return f"{path}?{urlencode(found | changed)}"

    return change


def in_another_browser(back: str, browser: Browser) -> str:
    browser.jar.clear()
    return back


def with_a_cookie_of_its_own(back: str, browser: Browser) -> str:
    """Return the address, in a browser that began another login."""
    browser.get("/login/begin")
    return back


def with_a_changed_cookie(back: str, browser: Browser) -> str:
    (name,) = browser.jar
    at, _, secret = browser.jar[name].partition(".")
    browser.jar[name] = f"{int(at) + 1}.{secret}"
    return back


CALLBACKS: dict[str, tuple[Callable[[str, Browser], str], str]] = {
    "another state": (with_(state="x" * 43), "in the browser that began it"),
    "no state": (without("state"), "in the browser that began it"),
    "a state that is no ASCII": (with_(state="ü"), "in the browser that began it"),
    "another browser": (in_another_browser, "in the browser that began it"),
    "another login of this browser": (with_a_cookie_of_its_own, "in the browser that began it"),
    "a later time": (with_a_changed_cookie, "in the browser that began it"),
    "another code": (with_(code="x"), "the issuer refused it (invalid_grant)"),
    "no code": (without("code"), "the issuer refused it (no reason given)"),
    "an error": (with_(error="access_denied"), "the issuer refused it (access_denied)"),
    "an error that is HTML": (with_(error="<b>"), "the issuer refused it (no reason given)"),
    "another issuer": (with_(iss="https://id.example.org"), "this console&#39;s issuer"),
}


@pytest.mark.parametrize("case", CALLBACKS)
def test_a_callback_that_does_not_fit_begins_no_session(shared: SharedConsole, case: str) -> None:
    change, said = CALLBACKS[case]
    browser = shared.browser()
    answer = browser.get(change(browser.begin(), browser))
    assert (answer.status, said in answer.text) == (403, True), answer.text
    assert "<script>no" not in answer.text
    assert browser.get("/studies").headers["location"] == "/login"


def test_a_code_is_redeemed_once(shared: SharedConsole) -> None:
    browser = shared.browser()
    back = browser.begin()
    pending = dict(browser.jar)
    assert browser.get(back).status == 200
    redeemed = shared.issuer.redeemed
    thief = Browser(shared.address, jar=pending)  # with the address and the cookie of the login
    answer = thief.get(back)
    assert (answer.status, "got it again" in answer.text) == (403, True)
    assert shared.issuer.redeemed == redeemed
    assert browser.get("/studies").status == 200


def test_no_two_logins_have_a_value_in_common(shared: SharedConsole) -> None:
    values = list[str]()
    for _ in range(2):
        there = urlsplit(shared.browser().get("/login/begin").headers["location"])
        query = parse_qs(there.query)
        values += [query[name][0] for name in ("state", "nonce", "code_challenge")]
    assert len(set(values)) == 6


def test_a_login_takes_ten_minutes_at_most(shared: SharedConsole) -> None:
    now = [1_000]
    logins = BegunLogins(lambda size: bytes(size), lambda: now[0])
    for later, taken in ((599, True), (600, False), (-1, False)):
        now[0] = 1_000
        cookie, login = BegunLogins.begin(logins)
        now[0] += later
        if taken:
            assert logins.end(cookie, login.state) == login
        else:
            with pytest.raises(Exception, match="within ten minutes"):
                logins.end(cookie, login.state)


@pytest.mark.parametrize("wanted", ["https://evil.example", "//evil.example", "/\\evil.example"])
def test_no_login_leads_to_another_site(shared: SharedConsole, wanted: str) -> None:
    browser = shared.browser()
    query = urlencode({"next": wanted, "redirect_uri": wanted, "return_to": wanted})
    there = browser.get(f"/login/begin?{query}").headers["location"]
    assert there.startswith(f"{shared.issuer.url}/authorize?")
    assert "evil" not in there
    answer = browser.get(f"{browser.begin()}&{query}")
    assert answer.status == 200
    assert "evil" not in answer.text
    assert 'content="0; url=/start"' in answer.text
    assert browser.get(f"/login?{query}").headers["location"] == "/start"


DOCUMENTS: dict[str, dict[str, Any]] = {
    "another issuer's": {"issuer": "https://id.example.org"},
    "tokens over plain text": {"token_endpoint": "http://id.example.org/token"},
    "another scheme": {"authorization_endpoint": "javascript:alert(1)"},
    "no keys": {"jwks_uri": None},
}


def test_an_issuer_whose_document_does_not_fit_is_not_gone_to(shared: SharedConsole) -> None:
    settings, now_s = IssuerSettings(shared.issuer.url, "console"), shared.console.now_s
    _, login = shared.console.logins.begin()
    for case, document in DOCUMENTS.items():
        shared.issuer.document = document
        with pytest.raises(LoginRefused) as refused:
            OpenIdIssuer(settings, now_s).address(login, shared.console.redirect)
        assert refused.value.reason in ("wrong-issuer", "issuer-away"), case
    shared.issuer.document = {}
    there = OpenIdIssuer(settings, now_s).address(login, shared.console.redirect)
    assert there.startswith(f"{shared.issuer.url}/authorize?")


def test_an_issuer_that_does_not_answer_is_not_asked_at_once_again() -> None:
    """A login and a renewal wait for it once; the threads are for other people too."""
    with shared_console() as found:
        found.issuer.refreshes = True
        kept = found.browser("ann")
        found.issuer.is_away = True
        found.clock.now += 3_700  # its document is old, and the token has ended
        asked = found.issuer.asked
        assert kept.get("/studies").headers["location"] == "/login"
        assert found.issuer.asked == asked + 2  # for the document and for a token
        assert found.browser().get("/login/begin").status == 303  # to its address of before
        assert found.issuer.asked == asked + 2
        found.issuer.is_away = False
        found.clock.now += 5
        found.browser().get("/login/begin")
        assert found.issuer.asked == asked + 3


def test_two_people_see_their_own(shared: SharedConsole) -> None:
    """Two sessions have the pages of their roles, and forms and ends of their own."""
    root, vera = shared.browser("root"), shared.browser("vera")
    assert "<strong>oidc root</strong>" in root.get("/").text
    assert "<strong>oidc vera</strong>" in vera.get("/").text
    assert root.get("/audit").status == 200
    assert vera.get("/audit").status == 403
    assert "yours is viewer" in vera.get("/audit").text
    assert root.get("/devices").status == 200
    assert vera.get("/devices").status == 403
    otto = shared.browser("otto")
    assert "<strong>oidc otto</strong>" in otto.get("/").text
    digest = "00" * 32
    # A form of one person with the token of another, and by a role that may not send it.
    assert vera.post("/logout", csrf=root.csrf).status == 403
    assert root.get("/").status == 200
    assert vera.post(f"/studies/{digest}/cancel").status == 403
    assert root.post("/audit/verify").status == 200
    assert vera.post("/audit/verify").status == 403
    # The end of one session ends no other.
    vera.get("/")
    assert vera.post("/logout").headers["location"] == "/login"
    assert vera.get("/").headers["location"] == "/login"
    assert root.get("/").status == 200
    with ExitStack() as held:
        assert root.open_live(held).status == 200


def test_a_session_ends_by_itself(shared: SharedConsole) -> None:
    shared.issuer.lifetime_s = 2 * SESSION_S
    idle, busy = shared.browser("ann"), shared.browser("ann")
    for _ in range(3):
        shared.steady[0] += IDLE_S - 1
        assert busy.get("/studies").status == 200
    assert idle.get("/studies").headers["location"] == "/login"
    for _ in range(SESSION_S // (IDLE_S - 1) - 3):
        shared.steady[0] += IDLE_S - 1
        assert busy.get("/studies").status == 200
    shared.steady[0] += IDLE_S - 1
    assert busy.get("/studies").headers["location"] == "/login"


def test_a_stream_keeps_no_session_alive(shared: SharedConsole) -> None:
    """A page that is left open opens its stream again by itself."""
    browser, console = shared.browser("ann"), shared.console
    cookie = f"{console.cookie}={browser.jar[console.cookie]}".encode()

    def is_there(path: str) -> bool:
        scope = {
            "type": "http",
            "path": path,
            "query_string": b"",
            "headers": [(b"cookie", cookie)],
        }
        return console.session_of(Request(scope)) is not None

    shared.steady[0] += 1_700
    assert is_there("/live/overview")
    shared.steady[0] += 99
    assert is_there("/live/overview")
    shared.steady[0] += 1
    assert not is_there("/studies")


def test_a_cookie_is_replaced(shared: SharedConsole) -> None:
    browser = shared.browser("ann")
    name, old = next(iter(browser.jar.items()))
    shared.steady[0] += ROTATE_S - 1
    assert "set-cookie" not in browser.get("/studies").headers
    shared.steady[0] += 1
    answer = browser.get("/studies")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(
        answer.headers["set-cookie"].split("; ")
    )
    assert browser.jar[name] != old
    before = Browser(shared.address, jar={name: old})
    assert before.get("/studies").status == 200  # a request that was on its way
    shared.steady[0] += 60
    assert before.get("/studies").headers["location"] == "/login"
    assert browser.get("/studies").status == 200


def test_a_logout_ends_streams_and_the_cookie_before(shared: SharedConsole) -> None:
    browser, console = shared.browser("ann"), shared.console
    before = dict(browser.jar)
    session = console.sessions.find(before[console.cookie])
    assert session is not None
    shared.steady[0] += ROTATE_S
    browser.get("/studies")
    assert browser.jar != before
    assert browser.post("/logout").status == 303
    assert session.is_over(shared.steady[0])
    assert Browser(shared.address, jar=before).get("/studies").headers["location"] == "/login"


def test_each_login_has_a_new_session(shared: SharedConsole) -> None:
    browser = shared.browser("ann")
    name, old = next(iter(browser.jar.items()))
    shared.issuer.person = "vera"
    assert browser.get(browser.begin()).status == 200
    assert browser.jar[name] != old
    assert "<strong>oidc vera</strong>" in browser.get("/studies").text
    assert Browser(shared.address, jar={name: old}).get("/studies").status == 303


def test_a_planted_cookie_is_no_session(shared: SharedConsole) -> None:
    browser = shared.browser()
    browser.jar[shared.console.cookie] = "ab" * 32
    assert browser.get(browser.begin()).status == 200
    assert browser.jar[shared.console.cookie] != "ab" * 32
    thief = Browser(shared.address, jar={shared.console.cookie: "ab" * 32})
    assert thief.get("/studies").headers["location"] == "/login"


def test_a_token_that_ends_is_renewed_or_ends_the_session(shared: SharedConsole) -> None:
    shared.issuer.refreshes = True
    kept = shared.browser("ann")
    shared.issuer.refreshes = False
    lost = shared.browser("ann")
    shared.issuer.refreshes = True
    for _ in range(3):
        shared.clock.now += 290
        assert kept.get("/studies").status == 200
    assert lost.get("/studies").headers["location"] == "/login"
    assert lost.post("/logout").status == 401
    shared.issuer.refresh.clear()  # the issuer has ended the person's session
    shared.clock.now += 290
    assert kept.get("/studies").headers["location"] == "/login"
    shared.clock.now = 1_800_000_000


def test_a_token_of_another_person_renews_no_session(shared: SharedConsole) -> None:
    """An issuer that mixes up its refresh tokens passes on no rights."""
    shared.issuer.refreshes = True
    vera, others = shared.browser("vera"), dict(shared.issuer.refresh)
    assert vera.get("/audit").status == 403
    shared.issuer.refresh.update(dict.fromkeys(others, "root"))
    shared.clock.now += 290
    assert vera.get("/audit").status != 200
    assert vera.get("/studies").headers["location"] == "/login"
    shared.clock.now = 1_800_000_000


def test_a_role_that_is_withdrawn_ends_with_the_token(shared: SharedConsole) -> None:
    shared.issuer.refreshes = True
    root = shared.browser("root")
    assert root.get("/audit").status == 200
    shared.issuer.people["root"] = "readers"
    shared.clock.now += 290
    assert root.get("/audit").status == 403
    shared.issuer.people["root"] = "nobody"
    shared.clock.now += 290
    assert "expected one of" in root.get("/studies").text
    shared.issuer.people["root"] = "admins"
    shared.clock.now = 1_800_000_000


def test_an_access_token_may_be_what_the_aggregator_gets() -> None:
    """The ID token has no role here, and lasts longer than the access token."""
    with shared_console(ForwardedToken.ACCESS) as shared:
        shared.issuer.claims = {"roles": None}
        lost = shared.browser("vera")
        assert '<span class="role">viewer</span>' in lost.get("/studies").text
        shared.issuer.refreshes = True
        kept = shared.browser("vera")
        for _ in range(2):
            shared.clock.now += 45
            assert kept.get("/studies").status == 200
        assert lost.get("/studies").headers["location"] == "/login"


def test_a_person_without_a_role_learns_which_claim_is_missing(shared: SharedConsole) -> None:
    """No page is offered that would be refused, and one may log out."""
    for given in (None, ["visitors"]):
        shared.issuer.claims = {"roles": given}
        lost = shared.browser("ann")
        for path in ("/start", "/", "/studies"):
            answer = lost.get(path)
            assert (answer.status, "You have no role here" in answer.text) == (403, True)
            assert "in its claim roles, found none" in answer.text
            assert "&#34;data&#34;" in answer.text
            assert "[callers.oidc.roles]" in answer.text
            assert "<li><a" not in answer.text
            assert ">Log out</button>" in answer.text


def test_the_console_signs_nothing_and_gives_the_command(shared: SharedConsole) -> None:
    ann = shared.browser("ann")
    form = [
        *(("learner", "frequency"), ("once", "0" * 32), ("epsilon", "2"), ("set.column", "habit")),
        ("schema", 'name = "people"\nversion = 1\n[fields]\nhabit = ["yes", "no"]\n'),
    ]
    text = ann.get("/studies/new").text
    assert "holds no key and signs nothing" in text
    assert "Sign and submit" not in text
    form[-1] = ("schema", _schema(text))
    form[3] = ("set.column", "education")
    planned = ann.post("/studies/new/plan", form)
    assert (planned.status, "Users needed" in planned.text) == (200, True), planned.text
    assert "askance study submit study.toml --aggregator" in planned.text
    refused = ann.post("/studies/new/submit", form)
    assert (refused.status, "expected a console with a key" in refused.text) == (403, True)
    root = shared.browser("root")  # an administrator for whom no key is configured
    assert "callers.oidc.analysts" in root.post("/studies/new/plan", form).text


def test_an_approver_is_given_the_command_and_may_refuse(shared: SharedConsole) -> None:
    bob, path = shared.browser("bob"), f"/studies/{shared.waiting}"
    text = bob.get(path).text
    assert f"askance study approve {shared.waiting} --aggregator" in text
    assert "Approve and sign" not in text
    refused = bob.post(f"{path}/approve")
    assert (refused.status, "expected a key, which signs" in refused.text) == (400, True)
    assert "awaiting-approval" in bob.get(path).text
    vera = shared.browser("vera")
    assert "askance study approve" not in vera.get(path).text
    assert vera.post(f"{path}/refuse", [("reason", "no")]).status == 403
    assert bob.post(f"{path}/refuse", [("reason", "too broad")]).headers["location"] == path
    assert "Refused by <strong>bob</strong>" in vera.get(path).text


def _schema(text: str) -> str:
    """Return the schema that a new form has."""
    import html

    return html.unescape(text.partition('name="schema" rows')[2].partition(">")[2]).partition(
        "</textarea>"
    )[0]


def test_cookies_are_for_tls_alone_where_the_console_has_it(shared: SharedConsole) -> None:
    """Both have the prefix __Host-, so that no other host or path can plant them."""
    own = shared.console
    secure = Console(
        own.own.link,
        hosts=["console.example.org:443", "console.example.org"],
        secure=True,
        announce=lambda link: None,
        secrets=lambda size: bytes(size),
        clock_s=lambda: 0.0,
        issuer=own.issuer,
        now_s=own.now_s,
    )
    assert secure.redirect == "https://console.example.org/login/callback"
    headers = asyncio.run(_headers(secure, "/login/begin", ""))
    name, *attributes = headers["set-cookie"].split("; ")
    pending = name.partition("=")[0]
    assert pending == "__Host-askance_443_login"
    assert {"HttpOnly", "SameSite=lax", "Secure", "Path=/", "Max-Age=600"} == set(attributes)
    back = "/login/callback?" + urlencode(
        {"code": _code_of(shared, headers["location"]), "state": _state_of(headers["location"])}
    )
    begun = asyncio.run(_headers(secure, back, name))
    session, *attributes = begun["set-cookie"].split("\n")[0].split("; ")
    assert session.startswith("__Host-askance_443=")
    assert {"HttpOnly", "SameSite=strict", "Secure", "Path=/", "Max-Age=43200"} == set(attributes)


async def _headers(console: Console, path: str, cookie: str) -> dict[str, str]:
    """Request a path of a console that no socket serves; return the answer's headers."""
    sent: list[dict[str, Any]] = []
    bare, _, query = path.partition("?")
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "scheme": "https",
        "path": bare,
        "raw_path": bare.encode(),
        "query_string": query.encode(),
        "headers": [(b"host", b"console.example.org"), (b"cookie", cookie.encode())],
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await application(console)(scope, receive, send)
    found: dict[str, str] = {}
    for name, value in sent[0]["headers"]:
        key = name.decode()
        found[key] = f"{found[key]}\n{value.decode()}" if key in found else value.decode()
    return found


def _state_of(address: str) -> str:
    return parse_qs(urlsplit(address).query)["state"][0]


def _code_of(shared: SharedConsole, address: str) -> str:
    """Return the code that the issuer gives for an address of its login page."""
    query = {name: one for name, (one,) in parse_qs(urlsplit(address).query).items()}
    return parse_qs(urlsplit(shared.issuer.authorize(query)).query)["code"][0]


def test_no_token_is_shown(shared: SharedConsole, caplog: pytest.LogCaptureFixture) -> None:
    tokens: list[str] = []

    def note(token: str) -> str:
        tokens.append(token)
        return token

    shared.issuer.forged = note
    with caplog.at_level(logging.DEBUG):
        ann = shared.browser("ann")
        pages = [ann.get(path).text for path in ("/studies", "/studies/new", "/audit")]
    assert len(tokens) == 1
    issuer = shared.console.issuer
    assert issuer is not None
    assert "a secret" not in repr(issuer.settings)
    held = PersonTokens("ann", tokens[0], 0, tokens[0])
    shown = "".join((*pages, caplog.text, *ann.jar.values(), repr(held)))
    assert tokens[0] not in shown
    assert tokens[0].split(".")[2] not in shown


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("http://id.example.org", "console"), "--oidc-issuer: expected https://"),
        (("id.example.org", "console"), "--oidc-issuer: expected https://"),
        (("https://id.example.org", ""), "--oidc-client: expected"),
        (("https://id.example.org", "console", "", "profile"), "--oidc-scope: expected openid"),
    ],
)
def test_settings_that_do_not_fit_are_refused(words: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(InvalidParameter, match=complaint):
        IssuerSettings(*words)  # type: ignore[arg-type]  # texts alone
