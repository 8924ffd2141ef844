"""Bearer tokens of an issuer on loopback: claims, algorithms, rotation, and roles."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import JWKRegistry

from askance_aggregator.analyst import connect
from askance_aggregator.analyst.calls import (
    TOKEN_KEY,
    Call,
    CallRefused,
    call_metadata,
    unsigned_call,
)
from askance_aggregator.server.callers import OidcSettings, Role
from askance_aggregator.server.callers.bearer import BearerCallers, IssuerKeys
from askance_aggregator.server.callers.key_sources import MAX_SET_BYTES, key_source
from askance_aggregator.store import SqliteStore
from askance_aggregator.studies.study import Study
from askance_client.errors import InvalidParameter
from tests.aggregator.server.callers import role_server
from tests.aggregator.server.callers.issuer import AUDIENCE, KINDS, NOW_S, Issuer, issuing

ROLES = {"askance-admins": Role.ADMIN, "auditors": Role.VIEWER, "data": Role.ANALYST}
SIGNING = bytes([9]) * 32
ROLE_OF_EACH = {role: Role(role) for role in ("analyst", "admin", "approver")}


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing() as issuer:
        yield issuer


class Verifier:
    """Callers by an issuer's tokens, and the clock by which they are checked."""

    def __init__(self, issuer: Issuer, jwks: str = "", **changed: Any) -> None:
        self.now = NOW_S
        settings = OidcSettings(issuer.url, AUDIENCE, jwks or f"{issuer.url}/jwks", ROLES)
        self.settings = replace(settings, **changed)
        source = key_source(self.settings.jwks, Path())
        self.callers = BearerCallers(self.settings, IssuerKeys(source, lambda: self.now))

    def refusal(self, token: str) -> str:
        with pytest.raises(CallRefused) as caught:
            self.callers.by_token(token)
        assert not token or token not in str(caught.value)
        return caught.value.reason


@pytest.mark.parametrize("algorithm", KINDS)
def test_a_token_of_each_algorithm_is_taken(issuer: Issuer, algorithm: str) -> None:
    caller = Verifier(issuer).callers.by_token(issuer.token(algorithm))
    assert (caller.name, caller.role, caller.key) == ("oidc ann", Role.ADMIN, b"")


def test_an_approver_has_the_key_of_approvals(issuer: Issuer) -> None:
    verifier = Verifier(
        issuer, signing_keys={"ann": SIGNING}, approving_keys={"ann": bytes(32)}, roles=ROLE_OF_EACH
    )
    keys = {
        role: verifier.callers.by_token(issuer.token(roles=[role])).key for role in ROLE_OF_EACH
    }
    assert keys == {"analyst": SIGNING, "admin": SIGNING, "approver": bytes(32)}
    assert [
        verifier.callers.may_sign_approvals(name, key)
        for name, key in (("ann", bytes(32)), ("ann", SIGNING), ("bob", SIGNING), ("ann", b""))
    ] == [True, True, False, False]


@pytest.mark.parametrize(
    "changed",
    [
        {"iss": "https://other.example.org"},
        {"iss": None},
        {"aud": "another"},
        {"aud": ["another"]},
        {"aud": f"{AUDIENCE}-admin"},  # which holds the audience's text
        {"aud": f"not {AUDIENCE}"},
        {"aud": [f"{AUDIENCE}/other", "another"]},
        {"aud": AUDIENCE[:-1]},
        {"aud": None},
        {"exp": NOW_S - 61},
        {"exp": None},
        {"exp": "tomorrow"},
        {"nbf": NOW_S + 61},
        {"iat": NOW_S + 61},
        {"sub": None},
        {"sub": "x" * 129},
        {"sub": "two\nlines"},
        {"sub": 7},
    ],
    ids=str,
)
def test_a_claim_that_does_not_hold_is_refused(issuer: Issuer, changed: dict[str, Any]) -> None:
    assert Verifier(issuer).refusal(issuer.token(**changed)) == "bad-token"


@pytest.mark.parametrize(
    "changed",
    [{"exp": NOW_S - 59}, {"nbf": NOW_S + 59}, {"aud": ["another", AUDIENCE]}],
    ids=str,
)
def test_clocks_may_differ_and_an_audience_may_be_one_of_several(
    issuer: Issuer, changed: dict[str, Any]
) -> None:
    assert Verifier(issuer).callers.by_token(issuer.token(**changed)).role is Role.ADMIN


def part(content: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


def test_other_algorithms_are_refused(issuer: Issuer) -> None:
    verifier = Verifier(issuer)
    claims = issuer.token().split(".")[1]
    for name in ("none", "None", ""):
        assert verifier.refusal(f"{part({'alg': name})}.{claims}.") == "bad-token"
    # A key that is public, used as the secret of an HMAC.
    secret = part(issuer.keys["RS256"].as_dict(private=False))
    key = JWKRegistry.import_key({"kty": "oct", "k": secret, "kid": "first RS256"})
    forged = jwt.encode({"alg": "HS256", "kid": key.kid}, {"sub": "ann"}, key, ["HS256"])
    assert verifier.refusal(forged) == "bad-token"


def test_what_is_no_token_of_the_issuer_is_refused(issuer: Issuer) -> None:
    verifier = Verifier(issuer)
    head, claims, signature = issuer.token().split(".")
    changed = issuer.token(sub="eve").split(".")[1]
    foreign = JWKRegistry.generate_key("EC", "P-256", {"kid": "first ES256"})
    for token in (
        "",
        "a.b.c",
        "x" * 9_000,
        f"{head}.{changed}.{signature}",
        f"{head}.{claims}.",
        f"{part({'alg': 'ES256'})}.{claims}.{signature}",  # no key's id, and several keys
        f"{part({'alg': 'ES256', 'kid': 7})}.{claims}.{signature}",
        issuer.token(key=foreign),
    ):
        assert verifier.refusal(token) == "bad-token"


def test_a_rotated_key_is_fetched_and_the_old_one_is_forgotten(issuer: Issuer) -> None:
    verifier = Verifier(issuer)
    old = issuer.token(exp=NOW_S + 10_000)
    verifier.callers.by_token(old)
    verifier.callers.by_token(old)
    assert issuer.fetches == 1
    issuer.rotate("second")
    new = issuer.token(exp=NOW_S + 10_000)
    assert verifier.refusal(new) == "bad-token"  # fetched less than 30 s ago
    verifier.now += 30
    assert verifier.callers.by_token(new).name == "oidc ann"
    assert issuer.fetches == 2
    assert verifier.refusal(old) == "bad-token"


@pytest.mark.parametrize("back_s", [300, 86_400])
def test_a_withdrawn_key_is_forgotten_after_the_clock_was_set_back(
    issuer: Issuer, back_s: int
) -> None:
    verifier = Verifier(issuer)
    token = issuer.token(exp=NOW_S + 10_000, iat=NOW_S - 100_000, nbf=NOW_S - 100_000)
    verifier.callers.by_token(token)
    issuer.rotate("second")
    verifier.now -= back_s
    assert verifier.refusal(token) == "bad-token"
    assert issuer.fetches == 2


def test_tokens_with_unknown_keys_do_not_make_it_fetch_again_and_again(issuer: Issuer) -> None:
    verifier = Verifier(issuer)
    foreign = JWKRegistry.generate_key("EC", "P-256", {"kid": "unknown"})
    for _ in range(20):
        verifier.refusal(issuer.token(key=foreign))
    assert issuer.fetches == 1


def test_keys_are_kept_while_the_issuer_is_away_for_a_day(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    verifier = Verifier(issuer)
    token = issuer.token(exp=NOW_S + 200_000)
    verifier.callers.by_token(token)
    issuer.status = 500
    verifier.now += 86_399
    with caplog.at_level(logging.WARNING):
        assert verifier.callers.by_token(token).role is Role.ADMIN
    assert "cannot be fetched" in caplog.text
    verifier.now += 31
    assert verifier.refusal(token) == "bad-token"


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"keys": []}', b'{"keys": 3}', b" " * (MAX_SET_BYTES + 1)]
)
def test_a_set_that_is_none_gives_no_keys(issuer: Issuer, body: bytes) -> None:
    token, issuer.body = issuer.token(), body
    assert Verifier(issuer).refusal(token) == "bad-token"
    assert issuer.fetches == 1


def test_a_redirection_is_not_followed(issuer: Issuer) -> None:
    issuer.status, issuer.location = 302, f"{issuer.url}/elsewhere"
    assert Verifier(issuer).refusal(issuer.token()) == "bad-token"
    assert issuer.fetches == 1


def test_keys_may_stand_in_a_file(issuer: Issuer, tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    file.write_bytes(issuer.answer())
    assert Verifier(issuer, str(file)).callers.by_token(issuer.token()).role is Role.ADMIN
    assert issuer.fetches == 0
    file.unlink()
    assert Verifier(issuer, str(file)).refusal(issuer.token()) == "bad-token"


@pytest.mark.parametrize(
    "url",
    [
        "http://id.example.org/jwks",
        "ftp://127.0.0.1/jwks",
        "http://localhost:port/jwks",
        "https://",
        "https://ann:secret@id.example.org/jwks",
    ],
)
def test_an_address_that_could_be_listened_to_is_refused(url: str) -> None:
    with pytest.raises(InvalidParameter, match="expected a file, https"):
        key_source(url, Path())


@pytest.mark.parametrize(
    ("given", "role"),
    [
        (["auditors"], Role.VIEWER),
        ("data", Role.ANALYST),
        (["data", "askance-admins"], Role.ADMIN),  # the first of the configuration
        (["staff"], None),
        (None, None),
        ({"askance-admins": 1}, None),
    ],
)
def test_a_role_is_the_first_of_the_configuration(
    issuer: Issuer, given: object, role: Role | None
) -> None:
    verifier, token = Verifier(issuer), issuer.token(roles=given)
    if role is None:
        assert verifier.refusal(token) == "no-role"
    else:
        assert verifier.callers.by_token(token).role is role


def test_claims_may_be_nested_and_an_analyst_has_a_key(issuer: Issuer) -> None:
    verifier = Verifier(
        issuer,
        role_claim="realm_access.roles",
        name_claim="email",
        signing_keys={"ann@example.org": SIGNING},
    )
    token = issuer.token(realm_access={"roles": ["data"]}, email="ann@example.org")
    caller = verifier.callers.by_token(token)
    assert (caller.name, caller.role, caller.key) == (
        "oidc ann@example.org",
        Role.ANALYST,
        SIGNING,
    )
    assert verifier.refusal(issuer.token(realm_access=[], email="ann@example.org")) == "no-role"


class TestCalls:
    """Calls to a server by tokens."""

    def test_a_token_calls_and_a_key_signs_the_study(self, issuer: Issuer, tmp_path: Path) -> None:
        key = role_server.KEYS[Role.ANALYST]
        verifier = Verifier(issuer, signing_keys={"ann": role_server.public(key)})
        file, store = tmp_path / "token", SqliteStore.in_memory()
        file.write_text(issuer.token(roles="data") + "\n")
        learner = role_server.learner()
        study = Study(learner, role_server.SCHEMA, epsilon="2")
        with role_server.served(store, verifier.callers) as (address, _):
            with connect(
                address, key=key, bearer_token_file=file, now_s=lambda: NOW_S
            ) as aggregator:
                handle = aggregator.submit(study)
                assert [one.study_digest.hex() for one in aggregator.studies()] == [handle.id]
                handle.cancel()
            with connect(address, bearer_token_file=file) as aggregator:
                with pytest.raises(InvalidParameter, match="submit: expected a key"):
                    aggregator.submit(study)
                file.write_text(issuer.token(roles="auditors"))  # read anew for each call
                assert len(aggregator.studies()) == 2
                with pytest.raises(CallRefused) as caught:
                    aggregator.study(handle.id).cancel()
                assert caught.value.reason == "not-permitted"
                file.write_text(issuer.token(roles="data", sub="bob"))
                with pytest.raises(CallRefused) as caught:
                    aggregator.studies()
                assert caught.value.reason == "no-key"
        recorded = [entry.event for entry in store.audit.entries()]
        assert [(one.who, one.outcome) for one in recorded] == [
            ("oidc ann", "begun"),
            ("oidc ann", "done"),
            ("oidc ann", "begun"),
            ("oidc ann", "done"),
            ("oidc ann", "refused: not-permitted"),
            ("oidc bob", "refused: no-key"),
        ]
        for entry in store.audit.entries():
            assert file.read_text()[:20] not in entry.line

    def test_a_token_of_another_form_is_answered_as_one(self, issuer: Issuer) -> None:
        call = Call("Analysts/List")
        unsigned = call_metadata(unsigned_call(bytes(32), NOW_S, body=b"", nonce=bytes(16)))
        with role_server.served(tokens=Verifier(issuer).callers) as (address, _):
            for sent in ("x.y.z", "Basic eDp5", "Bearer", "Bearer ", "BearerX a.b.c", ""):
                given = ((TOKEN_KEY, sent), *unsigned)
                assert role_server.outcome(address, call, b"", given) == "bad-token"
            assert role_server.outcome(address, call, b"", unsigned) == "malformed"

    def test_a_server_without_an_issuer_takes_no_token(
        self, issuer: Issuer, tmp_path: Path
    ) -> None:
        (tmp_path / "token").write_text(issuer.token())
        with (
            role_server.served() as (address, _),
            connect(address, bearer_token_file=tmp_path / "token") as aggregator,
            pytest.raises(CallRefused, match="no issuer is configured") as caught,
        ):
            aggregator.studies()
        assert caught.value.reason == "bad-token"

    @pytest.mark.parametrize("content", ["", "two words", "é", "x" * 9_000])
    def test_a_file_without_a_token_is_named(self, tmp_path: Path, content: str) -> None:
        (tmp_path / "token").write_text(content)
        with pytest.raises(InvalidParameter, match="token: expected one token"):
            connect("127.0.0.1:9", bearer_token_file=tmp_path / "token")

    def test_a_token_is_not_sent_in_the_open(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidParameter, match="expected TLS for a bearer token"):
            connect("192.0.2.1:7443", bearer_token_file=tmp_path / "token", plaintext=True)
        with pytest.raises(InvalidParameter, match="got neither"):
            connect("127.0.0.1:9")
