"""Callers in a configuration: names, roles, keys, and errors that name the place."""

from __future__ import annotations

from pathlib import Path

import pytest

from askance_aggregator.server.callers import Caller, Callers, OidcSettings, Role
from askance_aggregator.server.callers.bearer import BearerCallers, IssuerKeys
from askance_aggregator.server.callers.key_sources import KeyFile
from askance_aggregator.server.process.configuration import Configuration, read_configuration
from askance_client.errors import InvalidParameter

FIRST, SECOND = bytes([1]) * 32, bytes([2]) * 32
HEAD = 'listen = "127.0.0.1:0"\nstore = "sqlite:///store"\n'


def configured(folder: Path, text: str) -> Configuration:
    path = folder / "aggregator.toml"
    path.write_text(HEAD + text)
    return read_configuration(path)


def row(name: str, key: bytes, role: str) -> str:
    return f'[[callers.keys]]\nname = "{name}"\nkey = "{key.hex()}"\nrole = "{role}"\n'


def test_callers_have_names_and_roles(tmp_path: Path) -> None:
    text = row("ops", FIRST, "operator") + row("ann", SECOND, "analyst")
    found = configured(tmp_path, text).callers
    assert found.named == (
        Caller("ops", Role.OPERATOR, FIRST),
        Caller("ann", Role.ANALYST, SECOND),
    )
    assert found.signing == {SECOND}


def test_who_may_approve_is_known_by_name_and_key(tmp_path: Path) -> None:
    text = row("bob", FIRST, "approver") + row("ann", SECOND, "analyst")
    callers = Callers(frozenset, configured(tmp_path, text).callers.named)
    assert callers.may_approve("bob", FIRST)
    assert callers.may_approve("ann", SECOND) is False
    for name, key in (("bob", SECOND), ("eve", FIRST), ("bob", bytes(32))):
        assert callers.may_approve(name, key) is None, "not known by that name"


def test_without_the_table_the_analysts_are_the_only_callers(tmp_path: Path) -> None:
    found = configured(tmp_path, f'[analysts]\nkeys = ["{FIRST.hex()}"]\n')
    assert found.analysts == {FIRST: ""}
    named = configured(tmp_path, f'[analysts.keys]\n"Ann Lee" = "{FIRST.hex()}"\n')
    assert named.analysts == {FIRST: "Ann Lee"}
    assert not found.callers.named


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (row("ops", FIRST, "operater"), r"keys\[0\]: role: .*did you mean operator"),
        (row("ops", FIRST[:4], "admin"), r"keys\[0\]: key: expected 64 hexadecimal digits"),
        (row("ops", FIRST, "admin") + row("ops", SECOND, "admin"), "distinct names, got 'ops'"),
        (row("a", FIRST, "admin") + row("b", FIRST, "admin"), "distinct keys, got '0101"),
        (row("", FIRST, "admin"), r"keys\[0\]: name: expected a text"),
        (row("x" * 65, FIRST, "admin"), "1 to 64 printable characters"),
        (row("ops", FIRST, "admin") + "rule = 1\n", r"keys\[0\]: rule: .*did you mean role"),
        ("[callers]\nkeys = 3\n", r"expected tables, each under \[\[callers.keys\]\], got 3"),
        ("[callers]\nkey = []\n", "callers.key: .*did you mean keys"),
        (
            f'[analysts]\nkeys = ["{FIRST.hex()}"]\n' + row("ops", FIRST, "viewer"),
            "the role analyst or admin for ops",
        ),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(InvalidParameter, match=complaint):
        configured(tmp_path, text)


OIDC = """[callers.oidc]
issuer = "https://id.example.org"
audience = "askance"
jwks = "jwks.json"
[callers.oidc.roles]
admins = "admin"
"""


def test_an_issuer_is_configured(tmp_path: Path) -> None:
    more = f'[callers.oidc.analysts]\nann = "{FIRST.hex()}"\n'
    found = configured(tmp_path, OIDC + more).callers
    assert found.oidc == OidcSettings(
        "https://id.example.org",
        "askance",
        str(tmp_path / "jwks.json"),
        {"admins": Role.ADMIN},
        signing_keys={"ann": FIRST},
    )
    assert found.signing == {FIRST}
    assert found.tokens(lambda: 0) is not None
    assert configured(tmp_path, "").callers.tokens(lambda: 0) is None


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('"jwks.json"', '"http://id.example.org/"', "oidc.jwks: expected a file, https"),
        ('admins = "admin"', 'admins = "adm"', "roles: 'admins': .*did you mean admin"),
        ('admins = "admin"', "", "roles: expected a table with an entry"),
        ("audience", "audiense", "audience by 'audiense'"),
        ('"askance"', '"askance"\nleeway_s = 301', "at most 300 seconds, got 301"),
        ("[callers.oidc.roles]", "[callers.oidc.rolls]", "oidc.roles: expected a value"),
    ],
)
def test_a_mistake_about_an_issuer_is_named(
    tmp_path: Path, old: str, new: str, complaint: str
) -> None:
    with pytest.raises(InvalidParameter, match=complaint):
        configured(tmp_path, OIDC.replace(old, new))


def test_tokens_are_not_accepted_in_plain_text(tmp_path: Path) -> None:
    path = tmp_path / "aggregator.toml"
    head = HEAD.replace("127.0.0.1:0", "0.0.0.0:7443") + "plaintext = true\n"
    path.write_text(head + OIDC)
    with pytest.raises(InvalidParameter, match=r"callers.oidc: expected \[tls\]"):
        read_configuration(path)


APPROVERS = "[approval]\nneeded = true\n"
TOKENS = (
    '[callers.oidc]\nissuer = "https://id"\naudience = "askance"\njwks = "keys.json"\n'
    '[callers.oidc.roles]\nreviewers = "approver"\n'
)


@pytest.mark.parametrize(
    "others",
    [
        row("bob", FIRST, "approver"),
        row("root", FIRST, "admin"),
        f'{TOKENS}[callers.oidc.approvers]\nbob = "{FIRST.hex()}"\n',
    ],
)
def test_an_approval_may_be_needed(tmp_path: Path, others: str) -> None:
    assert configured(tmp_path, APPROVERS + others).approval is True
    assert configured(tmp_path, others).approval is False


def test_no_approver_signs_a_study(tmp_path: Path) -> None:
    tokens = f'{TOKENS}[callers.oidc.approvers]\nbob = "{SECOND.hex()}"\n'
    found = configured(tmp_path, APPROVERS + tokens + row("eve", FIRST, "approver"))
    assert found.callers.signing == frozenset()


@pytest.mark.parametrize("others", ["", TOKENS, row("ops", FIRST, "operator")])
def test_an_approval_needs_an_approver(tmp_path: Path, others: str) -> None:
    with pytest.raises(InvalidParameter, match="approval: expected a caller of the role approver"):
        configured(tmp_path, APPROVERS + others)


SIGNING = f'{TOKENS}[callers.oidc.analysts]\nlee = "{FIRST.hex()}"\n'


@pytest.mark.parametrize(
    ("analysts", "others", "accepted"),
    [
        (f'["{FIRST.hex()}"]', "", False),
        (f'{{ann = "{FIRST.hex()}"}}', "", True),
        (f'["{FIRST.hex()}"]', row("ann", FIRST, "analyst"), True),
        (f'["{FIRST.hex()}"]', SIGNING, True),
        (f'["{bytes([3]).hex() * 32}"]', SIGNING, False),
    ],
)
def test_an_approval_needs_a_name_of_each_analyst(
    tmp_path: Path, analysts: str, others: str, accepted: bool
) -> None:
    """Count one person with two keys once, by the name that both carry."""
    text = f"[analysts]\nkeys = {analysts}\n{APPROVERS}{row('bob', SECOND, 'approver')}{others}"
    if accepted:
        assert configured(tmp_path, text).approval is True
    else:
        with pytest.raises(InvalidParameter, match="approval: expected a name for each key"):
            configured(tmp_path, text)


def test_a_key_has_all_names_that_stand_beside_it(tmp_path: Path) -> None:
    """In `[analysts]`, in `[[callers.keys]]`, and among those of the issuer's tokens."""
    oidc = OidcSettings("https://id", "askance", "keys", {}, signing_keys={"lee": FIRST})
    tokens = BearerCallers(oidc, IssuerKeys(KeyFile(tmp_path), lambda: 0))
    named = [Caller("root", Role.ADMIN, SECOND)]
    callers = Callers(frozenset, named, tokens, names=lambda: {FIRST: "ann"})
    assert callers.names_of(FIRST) == {"ann", "lee"}
    assert callers.names_of(SECOND) == {"root"}
    assert callers.names_of(bytes(32)) == frozenset()
