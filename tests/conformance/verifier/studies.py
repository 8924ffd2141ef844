"""Studies, their signatures, requests, reports and exchanges."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from fractions import Fraction

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from tests.conformance.verifier import wire
from tests.conformance.verifier.families import MAX_ROUNDING_LEVELS, Family, round_to
from tests.conformance.verifier.queries import Query, query_of
from tests.conformance.verifier.randomizers import randomizer_of
from tests.conformance.verifier.schemas import Schema, schema_of
from tests.conformance.verifier.wire import Malformed, Message

_DISTRIBUTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}==[A-Za-z0-9.!+_-]{1,128}", re.ASCII)
_FRACTION = re.compile(r"([0-9]+)/([1-9][0-9]*)", re.ASCII)
REASONS = (
    *("", "MALFORMED", "UNKNOWN_STUDY", "UNTRUSTED_KEY", "BAD_SIGNATURE", "EXPIRED"),
    *("SCHEMA_MISMATCH", "FIELD_NOT_ALLOWED", "INVALID_QUERY", "INVALID_RANDOMIZER"),
    *("LEVELS_MISMATCH", "OVER_STUDY_BUDGET", "OVER_DAY_BUDGET", "OVER_LIFE_BUDGET"),
    "CLOCK_MOVED_BACK",
)
"""Names of the reasons for a refusal, by their numbers."""


def sha256(data: bytes) -> bytes:
    """SHA-256."""
    return hashlib.sha256(data).digest()


def signature_holds(study: bytes, public_key: bytes, signature: bytes) -> bool:
    """Return whether the signature is the key's over the study's bytes as they are."""
    try:
        key = Ed25519PublicKey.from_public_bytes(public_key)
        key.verify(signature, b"askance study v1\0" + study)
    except (InvalidSignature, ValueError):
        return False
    return True


def study_of(data: bytes) -> tuple[Message, Schema]:
    """A study's fields and its schema.

    Raises:
        Malformed: no study may be so.
    """
    message = wire.decode(wire.STUDY, data)
    if len(message["nonce"]) != 16 or not message["budget_nano_nats"]:
        raise Malformed("expected a nonce of 16 bytes and a budget")
    if message["expires_unix_s"] <= 0:
        raise Malformed("expected an expiry")
    for names in ([p["name"] for p in message["parameters"]], message["fields"]):
        if names != sorted(set(names)):
            raise Malformed("expected sorted names, none twice")
    schema = schema_of(message["schema"])
    if not set(message["fields"]) <= set(schema.fields):
        raise Malformed("expected fields of the schema")
    if message["distribution"] and not _DISTRIBUTION.fullmatch(message["distribution"]):
        raise Malformed("expected a distribution as name==version")
    conduct = message["conduct"]
    if conduct is not None:
        _check_conduct(conduct)
    if message["repeat"] is not None:
        _check_repeat(message["repeat"])
    return message, schema


def _check_repeat(repeat: Message) -> None:
    for name, most in (("every_days", 3_660), ("epochs", 1_024), ("first", 1 << 31)):
        if not 1 <= repeat[name] <= most:
            raise Malformed(f"expected {name} of 1 to {most}")


def _check_conduct(conduct: Message) -> None:
    for name in ("beta", "confidence"):
        written = _FRACTION.fullmatch(conduct[name])
        if written is None or len(conduct[name]) > 64:
            raise Malformed(f"expected {name} as a fraction")
        value = Fraction(int(written[1]), int(written[2]))
        if f"{value.numerator}/{value.denominator}" != conduct[name] or not 0 < value < 1:
            raise Malformed(f"expected {name} between 0 and 1, in lowest terms")
    if conduct["waves"] == 1 or conduct["waves"] > 16 or conduct["least_answers"] >= 1 << 63:
        raise Malformed("expected 2 to 16 waves or none, and fewer least answers")


@dataclass(frozen=True)
class Request:
    """A checked request."""

    digest: bytes
    study: bytes
    round: int
    group: int
    query: Query
    randomizer: Family
    schema: Schema

    @property
    def coins(self) -> int:
        """Number of coins of an answer; those that round are the last."""
        return self.randomizer.coins + self.rounding

    @property
    def rounding(self) -> int:
        """Number of coins that round."""
        if self.query.kind == "VECTOR":
            return self.randomizer.rounding_coins()
        return 1 if self.query.kind == "REAL" else 0

    @property
    def question(self) -> bytes:
        """Key under which an answer is frozen."""
        return sha256(self.query.digest(self.schema) + self.randomizer.canonical)

    def mismatched(self) -> bool:
        """Return whether the query's values are not the randomizer's levels."""
        query, components = self.query, self.randomizer.components
        if query.kind == "VECTOR":
            return components != query.components
        if components:
            return True
        if query.kind == "REAL":
            return self.randomizer.levels > MAX_ROUNDING_LEVELS
        return self.randomizer.levels != query.high + 1

    def symbol(self, values: list[int], coins: list[int]) -> bytes:
        """The randomized answer of a record's values."""
        query, randomizer = self.query, self.randomizer
        rounding = coins[randomizer.coins :]
        level = values[0]
        if query.kind == "VECTOR":
            level = randomizer.vector_level(values, query.low, query.high, rounding)
        elif query.kind == "REAL":
            level = round_to(level, query.low, query.high, randomizer.levels, rounding[0])
        return randomizer.draw(level, coins[: randomizer.coins])


def request_of(data: bytes, schema: Schema) -> Request:
    """The request over a study's schema; the query is checked before the randomizer.

    Raises:
        Malformed, Invalid, InvalidRandomizer: a device refuses it.
    """
    message = named_study(data)
    return Request(
        sha256(data),
        message["study_digest"],
        message["round"],
        message["group"],
        query_of(message["query"], schema),
        randomizer_of(message["randomizer"]),
        schema,
    )


def named_study(data: bytes) -> Message:
    """A request's fields, not yet checked but for the study's digest."""
    message = wire.decode(wire.REQUEST, data)
    if len(message["study_digest"]) != 32:
        raise Malformed("expected a digest of 32 bytes")
    return message


def report_of(data: bytes) -> Message:
    """A report's fields.

    Raises:
        Malformed: no report may be so.
    """
    message = wire.decode(wire.REPORT, data, wire.MAX_REPORT_BYTES)
    symbol, refusal = message["symbol"], message["refusal"]
    if len(message["request_digest"]) != 32 or (symbol is None and refusal is None):
        raise Malformed("expected a digest of 32 bytes and an outcome")
    if refusal is not None and not 1 <= refusal["reason"] < len(REASONS):
        raise Malformed("expected a known reason")
    return message


def report(
    digest: bytes, outcome: bytes | str, charged: int = 0, spent: int = 0, sequence: int = 0
) -> bytes:
    """Bytes of a report: of a symbol, or of a refusal by the name of its reason."""
    refused = isinstance(outcome, str)
    return wire.encode(
        wire.REPORT,
        {
            "request_digest": digest,
            "symbol": None if refused else outcome,
            "refusal": {"reason": REASONS.index(str(outcome))} if refused else None,
            "charged_nano_nats": charged,
            "spent_nano_nats": spent,
            "sequence": sequence,
        },
    )


def check_in_of(data: bytes) -> Message:
    """A device's message.

    Raises:
        Malformed: too much, or no such message.
    """
    message = wire.decode(wire.CHECK_IN, data, wire.MAX_EXCHANGE_BYTES)
    known = message["known_studies"]
    if len(message["reports"]) > 64 or len(known) > 256 or any(len(d) != 32 for d in known):
        raise Malformed("expected at most 64 reports, 256 studies and digests of 32 bytes")
    return message


def response_of(data: bytes) -> Message:
    """An aggregator's message.

    Raises:
        Malformed: too much, or no such message.
    """
    message = wire.decode(wire.RESPONSE, data, wire.MAX_EXCHANGE_BYTES)
    if max(len(message[name]) for name in ("acks", "studies", "requests")) > 64:
        raise Malformed("expected at most 64 of each")
    for ack in message["acks"]:
        if len(ack["request_digest"]) != 32 or not 1 <= ack["status"] <= 6:
            raise Malformed("expected a digest of 32 bytes and a known status")
    if sum(map(_entries, message["requests"])) > 1 << 20:
        raise Malformed("expected at most 2^20 entries of tables")
    return message


def _entries(payload: bytes) -> int:
    """Entries of a request's table; none of bytes that are no request."""
    try:
        randomizer = wire.decode(wire.REQUEST, payload, len(payload))["randomizer"] or {}
    except Malformed:
        return 0
    table = randomizer.get("table") or {"levels": 0, "symbols": 0}
    return int(min(table["levels"] * table["symbols"], 720 * 720))
