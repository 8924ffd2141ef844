"""Studies on the wire, and the analyst's signature over them."""

from __future__ import annotations

import re
from fractions import Fraction

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from askance_client.codec.parsing import MAX_MESSAGE_BYTES, parse
from askance_client.codec.schemas import decode_schema, encode_schema
from askance_client.errors import LocalProtocolError, RemoteProtocolError
from askance_client.messages import Conduct, SignedStudy, StudyTerms
from askance_client.queries import Schema
from askance_protos.v1 import study_pb2 as pb

_CONTEXT = b"askance study v1\0"  # a signature made for anything else is not one for a study
_NONCE_BYTES = 16
_MAX_FRACTION = 64
_FRACTION = re.compile(r"[0-9]+/[1-9][0-9]*", re.ASCII)


def encode_study(terms: StudyTerms) -> bytes:
    """The bytes that an analyst signs.

    Raises:
      LocalProtocolError: they would be longer than a device accepts.
    """
    data = pb.Study(
        nonce=terms.nonce,
        learner=terms.learner,
        learner_version=terms.learner_version,
        parameters=[pb.Parameter(name=n, value=v) for n, v in sorted(terms.parameters)],
        schema=encode_schema(terms.schema),
        budget_nano_nats=terms.budget_nano_nats,
        expires_unix_s=terms.expires_unix_s,
        purpose=terms.purpose,
        conduct=_encode_conduct(terms.conduct),
        fields=sorted(terms.fields),
    ).SerializeToString(deterministic=True)
    if len(data) > MAX_MESSAGE_BYTES:
        raise LocalProtocolError(
            f"study: expected at most {MAX_MESSAGE_BYTES} bytes, found {len(data)}"
        )
    return data


def decode_study(data: bytes) -> StudyTerms:
    """The terms in a study's bytes (its signature is `verify_study`'s business).

    Raises:
      RemoteProtocolError: not a study, one without a nonce, a budget or an expiry, or fields that
        are not its schema's, sorted, none twice.
      InvalidParameter: its schema or its conduct is none.
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
    )


def _decode_fields(message: pb.Study, schema: Schema) -> tuple[str, ...]:
    fields = tuple(message.fields)
    if list(fields) != sorted(set(fields)):
        raise RemoteProtocolError("study: expected fields sorted by name, none twice")
    if not schema.fields.keys() >= set(fields):
        raise RemoteProtocolError("study: expected fields of its schema, got another name")
    return fields


def _encode_conduct(conduct: Conduct) -> pb.Conduct | None:
    if conduct == Conduct():
        return None
    return pb.Conduct(
        beta=str(conduct.beta),
        confidence=str(conduct.confidence),
        round_deadline_s=conduct.round_deadline_s,
        least_answers=conduct.least_answers,
        waves=0 if conduct.waves == 1 else conduct.waves,
    )


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


def sign_study(terms: StudyTerms, key: Ed25519PrivateKey) -> SignedStudy:
    """`terms` with an analyst's signature."""
    study = encode_study(terms)
    return SignedStudy(study, key.public_key().public_bytes_raw(), key.sign(_CONTEXT + study))


def verify_study(signed: SignedStudy) -> bool:
    """Return whether the signature is the key's over exactly these bytes."""
    try:
        key = Ed25519PublicKey.from_public_bytes(signed.public_key)
        key.verify(signed.signature, _CONTEXT + signed.study)
    except (InvalidSignature, ValueError):
        return False
    return True
