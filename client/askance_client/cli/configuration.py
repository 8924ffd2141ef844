"""Configuration of a device: `device.toml`, read whole or refused with the place of the error.

Relative paths in it are relative to the file. What each key says stands in the file that `init`
writes (`template`).
"""

from __future__ import annotations

import string
from dataclasses import dataclass
from pathlib import Path

from askance_client import toml_tables
from askance_client.accounting import parse_epsilon
from askance_client.addresses import Address
from askance_client.cli.counters import OwnCounter, a_counter
from askance_client.cli.record_settings import RecordSettings, record_settings
from askance_client.device.policy import STUDY_SECONDS, WEIGHT_PER_S, Policy
from askance_client.errors import InvalidParameter
from askance_client.ledger import MAX_ANSWERS, SECONDS_PER_DAY
from askance_client.messages import DEFAULT_ANSWERS, MAX_EVERY_DAYS
from askance_client.owner.consents import CONSENT_WAIT_S, MAX_DAYS, ConsentRule
from askance_client.printable import value_text

_KEY_BYTES = 32
_MAX_CONNECTIONS = 256
_MAX_RELEASE_MS = 24 * 3_600_000
_RELEASE_MS = 1000  # half of it is longer than an evaluation takes on a busy machine
_LEAST_RELEASE_MS = 20  # of less, the half is no time limit that an evaluation keeps
_CONNECTIONS = 8
_WINDOW_DAYS = 30
_LONGEST_WAIT_S = 60
_MAX_WAIT_S = 3600


@dataclass(frozen=True, slots=True)
class DeviceConfiguration:
    """Settings of a device's owner.

    Args:
      ca: the authority that signs the aggregator's certificate (PEM); None for plain text.
      release_ms: a report leaves at a multiple of this many milliseconds after its request;
        half of it is the time limit of reading and evaluating a record.
      connections: over how many connections a gateway's check-ins are spread (`run --once`).
      rule: what holds for a study on which the owner has not decided.
      consent_days: an approval holds for so many days; None: until the study expires.
      counter: outside the folder, raised after every commit; None: the mark alone is compared.
      consent_wait_ms: mean time until what the owner decided is acted on; 0: no owner is asked.
      token_file: the operator's enrolment token, by which `run` enrols a folder that was not.
    """

    path: Path
    aggregator: Address
    ca: Path | None
    policy: Policy
    records: RecordSettings
    release_ms: int = _RELEASE_MS
    connections: int = _CONNECTIONS
    longest_wait_s: int = _LONGEST_WAIT_S
    rule: ConsentRule = ConsentRule.PINNED
    consent_days: int | None = None
    counter: OwnCounter | None = None
    consent_wait_ms: int = 0
    token_file: Path | None = None


def read_configuration(path: Path) -> DeviceConfiguration:
    """The configuration in a file."""
    if not path.is_file():
        raise InvalidParameter(f"{path}: expected a configuration, got no file (init makes one)")
    return configuration_in(toml_tables.TomlTable.of_file(path), path)


def configuration_in(given: toml_tables.TomlTable, path: Path) -> DeviceConfiguration:
    """The configuration in a table that stands, or is to stand, in a file."""
    folder = path.parent
    address = given.need("aggregator", an_address)
    ca, token = given.get("ca", toml_tables.a_text), given.get("token_file", toml_tables.a_text)
    counter = given.get("counter", lambda value: a_counter(toml_tables.a_text(value), folder))
    plaintext = given.get("plaintext", toml_tables.true_or_false) or False
    policy = given.need_table("policy")
    allowed = _policy(policy)
    rule = policy.get("consent", _rule) or ConsentRule.PINNED
    consent_days = policy.get("consent_days", toml_tables.within(1, MAX_DAYS))
    consent_wait_s = (
        policy.get("consent_wait_s", toml_tables.within(1, _MAX_WAIT_S)) or CONSENT_WAIT_S
    )
    source = record_settings(given.need_table("records"), folder)
    run = given.table("run") or toml_tables.TomlTable({}, "")
    release_ms = run.get("release_ms", toml_tables.within(_LEAST_RELEASE_MS, _MAX_RELEASE_MS))
    connections = run.get("connections", toml_tables.within(1, _MAX_CONNECTIONS)) or _CONNECTIONS
    longest = run.get("longest_wait_s", toml_tables.within(1, _MAX_WAIT_S)) or _LONGEST_WAIT_S
    given.finish()
    if ca is not None and plaintext:
        raise InvalidParameter(
            f"{given.place('plaintext')}: expected no such key beside ca, got true"
        )
    if ca is None and not plaintext:
        check_secrecy(given.place("ca"), address, "plaintext = true")
    return DeviceConfiguration(
        path,
        address,
        None if ca is None else folder.joinpath(ca),
        allowed,
        source,
        _RELEASE_MS if release_ms is None else release_ms,
        connections,
        longest,
        rule,
        consent_days,
        counter,
        1000 * consent_wait_s if rule is ConsentRule.ASK else 0,
        None if token is None else folder.joinpath(token),
    )


def an_address(value: object) -> Address:
    """Read the HOST:PORT of an aggregator."""
    address = Address.of(toml_tables.a_text(value))
    if address.port == 0:
        raise InvalidParameter("expected a port of 1 or more, got 0")
    return address


def an_analyst(value: object) -> bytes:
    """An Ed25519 public key, as hexadecimal digits."""
    text = toml_tables.a_text(value)
    if len(text) != 2 * _KEY_BYTES or not set(text) <= set(string.hexdigits):
        raise InvalidParameter(
            f"expected a public key of {2 * _KEY_BYTES} hexadecimal digits,"
            f" got {len(text)} characters"
        )
    return bytes.fromhex(text)


def a_budget(value: object) -> int:
    """Nats as a text or a whole number, exactly; in nano-nats."""
    if isinstance(value, int) and not isinstance(value, bool):
        return parse_epsilon(value, field="")
    if isinstance(value, str):
        return parse_epsilon(value, field="")
    raise InvalidParameter(
        'expected nats as a text ("0.5") or a whole number,'
        f" got {value_text(value)} (write it in quotation marks)"
    )


def a_refresh(value: object) -> int | None:
    """The shortest epoch of studies that collect again, as "30d"; "never": none may."""
    text = toml_tables.a_text(value)
    return None if text == "never" else toml_tables.a_number_of_days(text)


def _policy(table: toml_tables.TomlTable) -> Policy:
    analysts = frozenset(table.need("analysts", _analysts))
    fields = table.get("fields", toml_tables.texts)
    return Policy(
        analysts,
        table.need("life_epsilon", a_budget),
        table.get("day_epsilon", a_budget),
        table.get("study_epsilon", a_budget),
        None if fields is None else frozenset(fields),
        table.get("refresh", a_refresh),
        table.get("window_epsilon", a_budget),
        table.get("window_days", toml_tables.within(1, MAX_EVERY_DAYS)) or _WINDOW_DAYS,
        table.get("study_answers", toml_tables.within(1, MAX_ANSWERS)) or DEFAULT_ANSWERS,
        (table.get("study_seconds", toml_tables.within(1, SECONDS_PER_DAY)) or STUDY_SECONDS)
        * WEIGHT_PER_S,
    )


def _rule(value: object) -> ConsentRule:
    return ConsentRule(toml_tables.a_word(value, (rule.value for rule in ConsentRule)))


def _analysts(value: object) -> list[bytes]:
    keys = [an_analyst(text) for text in toml_tables.texts(value)]
    if not keys:
        raise InvalidParameter("expected the public key of one analyst or more, got none")
    return keys


def check_secrecy(place: str, address: Address, permission: str) -> None:
    """Refuse plain text to another machine, for which no permission was given."""
    if not address.is_loopback:
        raise InvalidParameter(
            f"{place}: expected the authority's certificate, got none (plain text is spoken on"
            f" loopback only, or with {permission}; the aggregator is {address})"
        )
