"""Requests and studies as bytes: the half of the codec that only an aggregator or analyst needs.

A device decodes what is encoded here (`askance_client.codec`) and computes its digests and losses
from the bytes that it received.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache
from itertools import groupby

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator.names import named_schema, names_of
from askance_client import messages, randomizers
from askance_client.codec import MAX_MESSAGE_BYTES, decode_query, decode_study, parse
from askance_client.codec.studies import STUDY_CONTEXT
from askance_client.errors import LocalProtocolError
from askance_client.queries import Bit, Bits, Category, Field, Integer, Label, Query, Real, Schema
from askance_client.randomizers.channel import Table
from askance_protos.v1 import exchange_pb2, query_pb2, randomizer_pb2, schema_pb2, study_pb2

_STUDIES = 128  # whose terms are kept decoded; a study has at most 256 KiB, mostly a few kB
_ROW_BY_ROW = 64 * 64  # entries: at most 40 kB as they are


@lru_cache(maxsize=_STUDIES)
def read_terms(study: bytes) -> messages.StudyTerms:
    """Decode a study's terms once per process, with the names of columns, which no device reads."""
    terms = decode_study(study)
    schema = study_pb2.Study.FromString(study).schema
    titles = {field.name: field.title for field in schema.fields if field.title}
    return replace(terms, schema=named_schema(terms.schema, titles)) if titles else terms


def encode_request(request: messages.Request) -> bytes:
    """Encode the payload that is sent, hashed and stored for `request`."""
    return exchange_pb2.Request(
        study_digest=request.study_digest,
        round=request.round,
        group=request.group,
        query=encode_query(request.query),
        randomizer=encode_randomizer(request.randomizer),
        epoch=request.epoch,
    ).SerializeToString(deterministic=True)


def encode_query(query: Query) -> query_pb2.Query:
    """Encode a query as protobuf: its canonical nodes, range and default."""
    return query_pb2.Query(
        kind=query_pb2.QueryKind.ValueType(query.kind),
        nodes=[
            query_pb2.Node(
                op=node.op, args=node.args, name=node.name, constants=node.constants, frac=node.frac
            )
            for node in query.nodes
        ],
        low=query.low,
        high=query.high,
        default=query.default,
    )


def query_to_bytes(query: Query) -> bytes:
    """Encode a query alone, as a transcript keeps it."""
    return encode_query(query).SerializeToString(deterministic=True)


def query_from_bytes(data: bytes, schema: Schema) -> Query:
    """Decode the query in `data` (see `decode_query`)."""
    return decode_query(parse(query_pb2.Query, data), schema)


def encode_randomizer(randomizer: randomizers.Randomizer) -> randomizer_pb2.Randomizer:
    """Encode a randomizer as protobuf."""
    match randomizer:
        case randomizers.Channel(table):
            return randomizer_pb2.Randomizer(table=_encode_table(table))
        case randomizers.KaryResponse(cells, other):
            return randomizer_pb2.Randomizer(
                k_ary_response=randomizer_pb2.KaryResponse(cells=cells, other=other)
            )
        case randomizers.SubsetSelection(cells, size, threshold):
            family = randomizer_pb2.SubsetSelection(cells=cells, size=size, threshold=threshold)
            return randomizer_pb2.Randomizer(subset_selection=family)
        case randomizers.LinearHashing(cells, modulus, other):
            hashing = randomizer_pb2.LinearHashing(cells=cells, modulus=modulus, other=other)
            return randomizer_pb2.Randomizer(linear_hashing=hashing)
        case randomizers.HadamardSign(values, threshold):
            sign = randomizer_pb2.HadamardSign(values=values, threshold=threshold)
            return randomizer_pb2.Randomizer(hadamard_sign=sign)
        case randomizers.SignedSubsetSelection(values, size, threshold):
            signed = randomizer_pb2.SignedSubsetSelection(
                values=values, size=size, threshold=threshold
            )
            return randomizer_pb2.Randomizer(signed_subset_selection=signed)
        case randomizers.HypercubeResponse(components, radius, threshold):
            cube = randomizer_pb2.HypercubeResponse(
                components=components, radius=radius, threshold=threshold
            )
            return randomizer_pb2.Randomizer(hypercube_response=cube)
        case randomizers.RandomCodebook(components, radius, bases, near, threshold, seed_bits):
            book = randomizer_pb2.RandomCodebook(
                components=components,
                radius=radius,
                bases=bases,
                near=near,
                threshold=threshold,
                seed_bits=seed_bits,
            )
            return randomizer_pb2.Randomizer(random_codebook=book)
    raise LocalProtocolError(
        f"randomizer: expected a table or a family of the wire, found {type(randomizer).__name__}"
    )


def question_digest(
    query: Query,
    schema: Schema,
    randomizer: randomizers.Randomizer,
    repeat: messages.Repeat | None,
    epoch: int,
) -> bytes:
    """Return the digest under which devices freeze an answer: of one question, in one epoch."""
    digest = hashlib.sha256(query.digest(schema) + randomizer.canonical).digest()
    if repeat is None:
        return digest
    period = repeat.every_days.to_bytes(8, "big") + epoch.to_bytes(8, "big")
    return hashlib.sha256(b"askance epoch v1\0" + digest + period).digest()


def _encode_table(table: Table) -> randomizer_pb2.Table:
    """Encode a table: a small one row by row, a large one as the runs of its columns."""
    levels, symbols = len(table), len(table[0])
    if levels * symbols <= _ROW_BY_ROW:
        entries = [entry for row in table for entry in row]
        return randomizer_pb2.Table(levels=levels, symbols=symbols, entries=entries)
    columns = (entry for column in zip(*table, strict=True) for entry in column)
    runs = [(entry, sum(1 for _ in run)) for entry, run in groupby(columns)]
    return randomizer_pb2.Table(
        levels=levels,
        symbols=symbols,
        entries=[entry for entry, _ in runs],
        repeats=[length for _, length in runs],
    )


def encode_schema(schema: Schema, titled: Collection[str] = ()) -> schema_pb2.Schema:
    """Encode a schema as protobuf; the fields in `titled` with the names of their columns."""
    fields = [_encode_field(name, field) for name, field in schema.fields.items()]
    renamed = names_of(schema).renamed
    for field in fields:
        if field.name in titled:
            field.title = renamed.get(field.name, "")
    return schema_pb2.Schema(name=schema.name, version=schema.version, fields=fields)


def _encode_field(name: str, field: Field) -> schema_pb2.Field:
    message = _encode_type(field)
    message.name = name
    message.required = field.required
    return message


def _encode_type(field: Field) -> schema_pb2.Field:
    match field:
        case Bit():
            return schema_pb2.Field(bit=schema_pb2.Bit())
        case Bits(length):
            return schema_pb2.Field(bits=schema_pb2.Bits(length=length))
        case Label(labels):  # before Category, of which it is a special case
            return schema_pb2.Field(label=schema_pb2.Category(labels=labels))
        case Category(labels):
            return schema_pb2.Field(category=schema_pb2.Category(labels=labels))
        case Integer(low, high):
            return schema_pb2.Field(integer=schema_pb2.Integer(low=low, high=high))
        case Real():
            real = schema_pb2.Real(
                low=field.low_mantissa, high=field.high_mantissa, frac_bits=field.frac_bits
            )
            return schema_pb2.Field(real=real)
    raise AssertionError(f"a field type without an encoding: {type(field).__name__}")


def sign_study(terms: messages.StudyTerms, key: Ed25519PrivateKey) -> messages.SignedStudy:
    """Encode a study and sign it with an analyst's key."""
    study = encode_study(terms)
    return messages.SignedStudy(
        study, key.public_key().public_bytes_raw(), key.sign(STUDY_CONTEXT + study)
    )


def encode_study(terms: messages.StudyTerms) -> bytes:
    """Encode a study: the bytes that an analyst signs.

    Raises:
      LocalProtocolError: they would be longer than a device accepts.
    """
    data = study_pb2.Study(
        nonce=terms.nonce,
        learner=terms.learner,
        learner_version=terms.learner_version,
        parameters=[study_pb2.Parameter(name=n, value=v) for n, v in sorted(terms.parameters)],
        schema=encode_schema(terms.schema, terms.fields),
        budget_nano_nats=terms.budget_nano_nats,
        expires_unix_s=terms.expires_unix_s,
        purpose=terms.purpose,
        conduct=_encode_conduct(terms.conduct),
        fields=sorted(terms.fields),
        distribution=terms.distribution,
        repeat=_encode_repeat(terms.repeat),
        most_answers=0 if terms.most_answers == messages.DEFAULT_ANSWERS else terms.most_answers,
    ).SerializeToString(deterministic=True)
    if len(data) > MAX_MESSAGE_BYTES:
        raise LocalProtocolError(
            f"study: expected at most {MAX_MESSAGE_BYTES} bytes, found {len(data)}"
        )
    return data


def _encode_repeat(repeat: messages.Repeat | None) -> study_pb2.Repeat | None:
    if repeat is None:
        return None
    return study_pb2.Repeat(every_days=repeat.every_days, epochs=repeat.epochs, first=repeat.first)


def _encode_conduct(conduct: messages.Conduct) -> study_pb2.Conduct | None:
    if conduct == messages.Conduct():
        return None
    return study_pb2.Conduct(
        beta=str(conduct.beta),
        confidence=str(conduct.confidence),
        round_deadline_s=conduct.round_deadline_s,
        least_answers=conduct.least_answers,
        waves=0 if conduct.waves == 1 else conduct.waves,
    )
