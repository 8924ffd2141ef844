"""Studies on the wire, and the analyst's signature over them."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from askance_client.codec.parsing import parse
from askance_client.errors import RemoteProtocolError
from askance_client.messages import DEFAULT_ANSWERS, Conduct, Repeat, SignedStudy, StudyTerms
from askance_client.queries import Bit, Bits, Category, Field, Integer, Label, Real, Schema
from askance_protos.v1 import schema_pb2
from askance_protos.v1 import study_pb2 as pb

_NAME_SHOWN = 64


def decode_schema(message: schema_pb2.Schema) -> Schema:
    """The schema in `message`.

    Raises:
      RemoteProtocolError: a field has no type, or two fields have one name.
      InvalidParameter: a name, bound or label that no schema may have.
    """
    fields: dict[str, Field] = {}
    for item in message.fields:
        if item.name in fields:
            name = item.name[:_NAME_SHOWN]
            raise RemoteProtocolError(f"schema: expected distinct names, found {name!r} twice")
        kind = _decode_field(item)
        fields[item.name] = replace(kind, required=True) if item.required else kind
    return Schema.of(message.name, message.version, fields)


def _decode_field(message: schema_pb2.Field) -> Field:
    match message.WhichOneof("type"):
        case "bit":
            return Bit()
        case "bits":
            return Bits(message.bits.length)
        case "category":
            return Category(tuple(message.category.labels))
        case "label":
            return Label(tuple(message.label.labels))
        case "integer":
            return Integer(message.integer.low, message.integer.high)
        case "real":
            real = message.real
            return Real.of_mantissas(real.low, real.high, real.frac_bits)
    name = message.name[:_NAME_SHOWN]
    raise RemoteProtocolError(f"schema: expected a type for field {name!r}, found none")


STUDY_CONTEXT = b"askance study v1\0"  # a signature made for anything else is not one for a study
_NONCE_BYTES = 16
_MAX_FRACTION = 64
_DISTRIBUTION = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,127})==[A-Za-z0-9.!+_-]{1,128}", re.ASCII)
_FRACTION = re.compile(r"[0-9]+/[1-9][0-9]*", re.ASCII)


def decode_study(data: bytes) -> StudyTerms:
    """The terms in a study's bytes (its signature is `verify_study`'s business).

    Raises:
      RemoteProtocolError: not a study, one without a nonce, a budget or an expiry, fields that
        are not its schema's, sorted, none twice, or a distribution that is not name==version.
      InvalidParameter: its schema, its conduct or its epochs are none.
    """
    message = parse(pb.Study, data)
    if len(message.nonce) != _NONCE_BYTES:
        raise RemoteProtocolError(
            f"study: expected a nonce of {_NONCE_BYTES} bytes, found {len(message.nonce)}"
        )
    if message.budget_nano_nats == 0:
        raise RemoteProtocolError("study: expected a budget above 0 nano-nats, found 0")
    if message.expires_unix_s <= 0:
        raise RemoteProtocolError("study: expected an expiry, found none")
    names = [parameter.name for parameter in message.parameters]
    if names != sorted(set(names)):
        raise RemoteProtocolError("study: expected parameters sorted by name, none twice")
    schema = decode_schema(message.schema)
    return StudyTerms(
        nonce=message.nonce,
        learner=message.learner,
        learner_version=message.learner_version,
        parameters=tuple((p.name, p.value) for p in message.parameters),
        schema=schema,
        budget_nano_nats=message.budget_nano_nats,
        expires_unix_s=message.expires_unix_s,
        purpose=message.purpose,
        conduct=_decode_conduct(message),
        fields=_decode_fields(message, schema),
        distribution=_decode_distribution(message.distribution),
        repeat=_decode_repeat(message),
        most_answers=message.most_answers or DEFAULT_ANSWERS,
    )


def _decode_repeat(message: pb.Study) -> Repeat | None:
    if not message.HasField("repeat"):
        return None
    found = message.repeat
    return Repeat(found.every_days, found.epochs, found.first)


def _decode_fields(message: pb.Study, schema: Schema) -> tuple[str, ...]:
    fields = tuple(message.fields)
    if list(fields) != sorted(set(fields)):
        raise RemoteProtocolError("study: expected fields sorted by name, none twice")
    if not schema.fields.keys() >= set(fields):
        raise RemoteProtocolError("study: expected fields of its schema, got another name")
    return fields


def _decode_distribution(text: str) -> str:
    if text and not _DISTRIBUTION.fullmatch(text):
        raise RemoteProtocolError("study: expected a distribution as name==version, found none")
    return text


def _decode_conduct(message: pb.Study) -> Conduct:
    if not message.HasField("conduct"):
        return Conduct()
    found = message.conduct
    if found.waves == 1:
        raise RemoteProtocolError("study: expected 2 waves or more, or none told, found 1")
    return Conduct(
        _fraction("beta", found.beta),
        _fraction("confidence", found.confidence),
        found.round_deadline_s,
        found.least_answers,
        found.waves or 1,
    )


def _fraction(name: str, text: str) -> Fraction:
    """A fraction in lowest terms and no other writing of it; short, so that it is quickly read."""
    if len(text) <= _MAX_FRACTION and _FRACTION.fullmatch(text):
        value = Fraction(text)
        if str(value) == text:
            return value
    raise RemoteProtocolError(f"study: expected {name} as a fraction in lowest terms, found none")


def verify_study(signed: SignedStudy) -> bool:
    """Return whether the signature is the key's over exactly these bytes."""
    try:
        key = Ed25519PublicKey.from_public_bytes(signed.public_key)
        key.verify(signed.signature, STUDY_CONTEXT + signed.study)
    except (InvalidSignature, ValueError):
        return False
    return True
