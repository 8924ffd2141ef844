"""Content of the good vectors. Fields are written out by hand; bytes come from the code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator.encoding import (
    encode_query,
    encode_randomizer,
    encode_request,
    encode_schema,
    encode_study,
    sign_study,
)
from askance_aggregator.exchange import (
    encode_response,
)
from askance_aggregator.families import (
    hypercube_response,
    k_ary_response,
    random_codebook,
    randomized_response,
    subset_selection,
)
from askance_aggregator.queries import (
    bucketize,
    category,
    clip,
    dot,
    first,
    parity,
    predicate,
    real,
    round_to,
    sigmoid,
    signed,
    vector,
    where,
)
from askance_client.accounting import parse_epsilon
from askance_client.codec import decode_request, digest_of, encode_report
from askance_client.messages import (
    AckStatus,
    Conduct,
    Reason,
    Refusal,
    Repeat,
    Report,
    Request,
    SignedStudy,
    StudyTerms,
)
from askance_client.queries import (
    Bit,
    Bits,
    Category,
    Integer,
    Label,
    Query,
    QueryKind,
    Real,
    Schema,
)
from askance_client.randomizers import (
    Channel,
    HadamardSign,
    HypercubeResponse,
    KaryResponse,
    LinearHashing,
    RandomCodebook,
    Randomizer,
    SignedSubsetSelection,
    SubsetSelection,
)
from askance_client.service import (
    CheckIn,
    Response,
    encode_check_in,
)
from askance_protos.v1 import study_pb2
from tests.vectors.many_cells import WIDE, WINDOWS
from tests.vectors.one_device import answer

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
SCHEMA = Schema(
    "person",
    3,
    smoker=Bit(),
    answers=Bits(40),
    colour=Category(("red", "green", "blue")),
    age=Integer(-5, 120),
    height=Real(0, "2.5"),
    ill=Label(("no", "yes")),
)
FIELDS: dict[str, dict[str, Any]] = {
    "smoker": {"type": "bit"},
    "answers": {"type": "bits", "length": 40},
    "colour": {"type": "category", "labels": ["red", "green", "blue"]},
    "age": {"type": "integer", "low": "-5", "high": "120"},
    "height": {"type": "real", "low": "0", "high": "163840", "frac_bits": 16},
    "ill": {"type": "label", "labels": ["no", "yes"]},
}
REQUIRED = Schema(
    "r",
    1,
    smoker=Bit(required=True),
    answers=Bits(40, required=True),
    colour=Category(("red", "green", "blue"), required=True),
    age=Integer(-5, 120, required=True),
    height=Real(0, "2.5", required=True),
    ill=Label(("no", "yes"), required=True),
    consents=Bit(),
)
REQUIRED_FIELDS: dict[str, dict[str, Any]] = {
    **{name: {**field, "required": True} for name, field in FIELDS.items()},
    "consents": {"type": "bit"},
}
RECORDS: list[Mapping[str, Any]] = [
    {
        "smoker": 1,
        "answers": "1100000000000000000000000000000000000001",
        "colour": "green",
        "age": 41,
        "height": "1.75",
        "ill": "yes",
    },
    {"smoker": 0, "answers": "0" * 40, "colour": "red", "age": 200, "height": "9", "ill": "no"},
    {"colour": "ultraviolet", "age": "unknown"},
]
ONE = parse_epsilon("1")
MASK = "11" + "0" * 37 + "1"

Cases = list[dict[str, Any]]


def schemas() -> Cases:
    least = Schema("s", 1, y=Bit())
    listed = [
        ("every type of field", SCHEMA, {"name": "person", "version": 3, "fields": FIELDS}),
        ("the least schema", least, {"name": "s", "version": 1, "fields": {"y": FIELDS["smoker"]}}),
        ("required fields", REQUIRED, {"name": "r", "version": 1, "fields": REQUIRED_FIELDS}),
    ]
    return [
        {
            "name": name,
            "hex": encode_schema(schema).SerializeToString(deterministic=True).hex(),
            "digest": schema.digest.hex(),
            "fields": fields,
        }
        for name, schema, fields in listed
    ]


def queries() -> Cases:
    s = SCHEMA
    listed: list[tuple[str, Query, list[str]]] = [
        ("a bit", predicate(s.smoker), ["1", "0", "0"]),
        ("its complement, default 1", predicate(~s.smoker, default=1), ["0", "1", "1"]),
        (
            "comparisons and logic",
            predicate((s.age >= 18) & (s.colour == "green")),
            ["1", "0", "0"],
        ),
        ("a parity", predicate(parity(s.answers, MASK)), ["1", "0", "0"]),
        ("a component", predicate(s.answers[39]), ["1", "0", "0"]),
        ("an integer, clamped by its schema", real(s.age), ["41", "120", "57"]),
        ("a real", real(s.height), ["114688", "163840", "81920"]),
        ("clipped, rounded", real(round_to(clip(s.height, 1, 2), 4)), ["28", "32", "24"]),
        (
            "a fraction as a constant",
            real(s.height * "0.1"),
            ["751665152", "1073807360", "536903680"],
        ),
        ("a sigmoid", real(sigmoid(s.height - 1)), ["44511", "53581", "35603"]),
        (
            "a dot product",
            real(dot(["0.5", -1], [s.age, s.smoker])),
            ["1277952", "3932160", "1851392"],
        ),
        ("a choice", real(where(s.smoker, s.age, 0), default=7), ["41", "0", "7"]),
        ("a category", category(s.colour), ["1", "0", "0"]),
        ("a category, default 2", category(s.colour, default=2), ["1", "0", "2"]),
        ("buckets", category(bucketize(s.age, [0, 18, 65])), ["2", "3", "0"]),
        ("the first that holds", category(first([s.smoker, s.age > 99])), ["0", "1", "0"]),
        (
            "a vector",
            vector([s.smoker, s.height], 0, 2),
            ["65536,114688", "0,131072", "65536,65536"],
        ),
        ("a signed value", signed(first([s.smoker, s.ill == "no"])), ["0", "1", "2"]),
    ]
    return [_query(*row) for row in listed]


def _query(name: str, query: Query, values: list[str]) -> dict[str, Any]:
    computed = [_value(query, record) for record in RECORDS]
    assert computed == values, (name, computed)  # worked out by hand
    return {
        "name": name,
        "hex": encode_query(query).SerializeToString(deterministic=True).hex(),
        "digest": query.digest(SCHEMA).hex(),
        "fields": {
            "kind": query.kind.name,
            "low": str(query.low),
            "high": str(query.high),
            "default": str(query.default),
            "frac": query.frac,
            "nodes": len(query.nodes),
            "fields_used": sorted(query.fields_used),
        },
        "answers": [
            {"record": record, "value": value}
            for record, value in zip(RECORDS, values, strict=True)
        ],
    }


def _value(query: Query, record: Mapping[str, Any]) -> str:
    encoded = SCHEMA.encode(record)
    if query.kind is QueryKind.VECTOR:
        return ",".join(map(str, query.evaluate_vector(encoded)))
    return str(query.evaluate(encoded))


def randomizers() -> Cases:
    quarter = 1 << 62
    skewed = Channel(((3 * quarter, quarter - 1, 1), (quarter, 3 * quarter - 1, 1)))
    listed: list[tuple[str, Randomizer, dict[str, Any]]] = [
        ("randomized response, epsilon 1", randomized_response(ONE), {"family": "table"}),
        ("a table of 2 x 3", skewed, {"family": "table"}),
        ("a table of windows, by its runs, two bytes", WINDOWS, {"family": "table"}),
        ("k-ary response", k_ary_response(3, ONE), {"family": "k-ary", "cells": 3}),
        (
            "k-ary response, two bytes",
            KaryResponse(300, 1 << 40),
            {"family": "k-ary", "cells": 300},
        ),
        ("subset selection", subset_selection(10, ONE), {"family": "subset", "cells": 10}),
        (
            "subset selection, 3 of 20",
            SubsetSelection(20, 3, 1 << 63),
            {"family": "subset", "cells": 20, "size": 3, "threshold": str(1 << 63)},
        ),
        (
            "subset selection, an index of one byte",
            SubsetSelection(9, 1, 3 << 62),
            {"family": "subset", "cells": 9, "size": 1, "threshold": str(3 << 62)},
        ),
        (
            "subset selection, indices of two bytes: 5 of 40,000",
            SubsetSelection(40_000, 5, 3 << 62),
            {"family": "subset", "cells": 40_000, "size": 5, "threshold": str(3 << 62)},
        ),
        (
            "linear hashing",
            LinearHashing(300, 7, 1 << 60),
            {"family": "hashing", "cells": 300, "modulus": 7, "other": str(1 << 60)},
        ),
        *WIDE,
        (
            "Hadamard sign, two bytes",
            HadamardSign(100, 3 << 62),
            {"family": "sign", "values": 100, "threshold": str(3 << 62)},
        ),
        (
            "signed subset selection",
            SignedSubsetSelection(9, 4, (1 << 63) + 1),
            {"family": "signed subset", "values": 9, "size": 4, "threshold": str((1 << 63) + 1)},
        ),
        (
            "signed subset selection, indices",
            SignedSubsetSelection(100, 3, (1 << 63) + 1),
            {"family": "signed subset", "values": 100, "size": 3, "threshold": str((1 << 63) + 1)},
        ),
        (
            "hypercube response",
            hypercube_response(5, ONE),
            {"family": "hypercube", "components": 5},
        ),
        (
            "hypercube response, radius 20 of 100",
            HypercubeResponse(100, 20, 3 << 62),
            {"family": "hypercube", "components": 100, "radius": 20, "threshold": str(3 << 62)},
        ),
        (
            "random codebook",
            random_codebook(5, 1 << 16, ONE),
            {"family": "codebook", "components": 5, "radius": "65536", "seed_bits": 40},
        ),
        (
            "random codebook, two bases, 16 seeds",
            RandomCodebook(20, 7, 2, 9, 3 << 62, 4),
            {
                "family": "codebook",
                "components": 20,
                "radius": "7",
                "bases": 2,
                "near": 9,
                "threshold": str(3 << 62),
                "seed_bits": 4,
            },
        ),
    ]
    made = [_randomizer(name, randomizer, fields) for name, randomizer, fields in listed]
    for case in made:
        if case["name"] in NO_REPORTS:
            case["no_reports"] = NO_REPORTS[case["name"]]
    return made


NO_REPORTS = {
    # out of order, an item twice, an item that is none, another length
    "subset selection, an index of one byte": ["09", "ff", "0001", "8000"],
    "subset selection, indices of two bytes: 5 of 40,000": [
        *("00020001000300040005", "00010001000300040005", "00010002000300049c40"),
        *("ffffffffffffffffffff", "0001000200030004", "000100020003000400050006"),
    ],
    # the last: both signs of value 1
    "signed subset selection, indices": ["050400", "040406", "0102c8", "ffffff", "0102", "020308"],
}


def _randomizer(name: str, randomizer: Randomizer, fields: dict[str, Any]) -> dict[str, Any]:
    coins = [0, 1 << 63, (1 << 64) - 1, 0x0123456789ABCDEF]
    draws = []
    for level in (0, randomizer.levels - 1):
        for start in range(4):
            words = [coins[(start + place) % 4] for place in range(randomizer.coins)]
            draws.append(
                {
                    "level": level if level < 1 << 53 else str(level),
                    "coins": [str(word) for word in words],
                    "report": randomizer.randomize(level, words).hex(),
                }
            )
    return {
        "name": name,
        "hex": encode_randomizer(randomizer).SerializeToString(deterministic=True).hex(),
        "fields": fields
        | {
            "levels": randomizer.levels,
            "coins": randomizer.coins,
            "width": randomizer.width,
            "canonical": randomizer.canonical.hex(),
            "loss": [str(randomizer.loss.numerator), str(randomizer.loss.denominator)],
            "nano_nats": str(randomizer.loss.nano_nats),
        },
        "draws": draws,
    }


def terms() -> StudyTerms:
    return StudyTerms(
        nonce=bytes(range(16)),
        learner="mean",
        learner_version=2,
        parameters=(("field", "height"), ("tau", "0.1")),
        schema=SCHEMA,
        budget_nano_nats=2 * ONE,
        expires_unix_s=4_102_444_800,
        purpose="to learn how tall people are",
        fields=tuple(sorted(SCHEMA.fields)),
    )


def studies() -> Cases:
    study = encode_study(terms())
    fields = {
        "nonce": "000102030405060708090a0b0c0d0e0f",
        "learner": "mean",
        "learner_version": 2,
        "parameters": [["field", "height"], ["tau", "0.1"]],
        "schema": SCHEMA.digest.hex(),
        "budget_nano_nats": "2000000000",
        "expires_unix_s": "4102444800",
        "purpose": "to learn how tall people are",
        "fields": sorted(SCHEMA.fields),
    }
    conduct = Conduct(Fraction(1, 1000), Fraction(99, 100), 86_400, 50, 4)
    told = {
        "beta": "1/1000",
        "confidence": "99/100",
        "round_deadline_s": 86_400,
        "least_answers": 50,
        "waves": 4,
    }
    conducted = encode_study(replace(terms(), conduct=conduct))
    narrow = encode_study(replace(terms(), fields=("age", "height")))
    fieldless = encode_study(replace(terms(), fields=()))
    cases = [
        ("a study with parameters", study, fields),
        ("a study that says how it is run", conducted, fields | {"conduct": told}),
        ("a study that may use two fields", narrow, fields | {"fields": ["age", "height"]}),
        ("a study that may use no field", fieldless, fields | {"fields": []}),
        (
            "a study whose learner is of a distribution of its own",
            encode_study(replace(terms(), distribution="askance-median==0.3.1")),
            fields | {"distribution": "askance-median==0.3.1"},
        ),
        (
            "a study of twelve epochs of seven days",
            encode_study(replace(terms(), repeat=Repeat(7, 12, 2_922))),
            fields | {"repeat": {"every_days": 7, "epochs": 12, "first": 2_922}},
        ),
        (
            "a study of at most 96 answers",
            encode_study(replace(terms(), most_answers=96)),
            fields | {"most_answers": 96},
        ),
    ]
    return [
        {"name": name, "hex": data.hex(), "digest": digest_of(data).hex(), "fields": said}
        for name, data, said in cases
    ]


def signed_studies() -> Cases:
    study = sign_study(terms(), KEY)
    fields = {
        "study": digest_of(study.study).hex(),
        "public_key": "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8",
        "signature": study.signature.hex(),
    }
    return [{"name": "the study, signed", "hex": signed_bytes(study).hex(), "fields": fields}]


def signed_bytes(study: SignedStudy) -> bytes:
    message = study_pb2.SignedStudy(
        study=study.study, public_key=study.public_key, signature=study.signature
    )
    return message.SerializeToString(deterministic=True)


def requests() -> Cases:
    digest = digest_of(encode_study(terms()))
    listed = [
        Request(digest, 0, 0, predicate(SCHEMA.smoker), randomized_response(ONE)),
        Request(digest, 1, 2, category(SCHEMA.colour), k_ary_response(3, ONE)),
        Request(digest, 7, 0, real(SCHEMA.height), randomized_response(ONE)),
        Request(
            digest, 8, 1, vector([SCHEMA.smoker, SCHEMA.height], 0, 2), hypercube_response(2, ONE)
        ),
        Request(
            digest, 8, 2, vector([SCHEMA.smoker, SCHEMA.height], 0, 2), random_codebook(2, 9, ONE)
        ),
    ]
    return [_request(request) for request in listed]


def _request(request: Request) -> dict[str, Any]:
    payload = encode_request(request)
    assert decode_request(payload, SCHEMA) == request
    return {
        "name": f"a {request.query.kind.name.lower()} request",
        "hex": payload.hex(),
        "digest": digest_of(payload).hex(),
        "fields": {
            "study_digest": request.study_digest.hex(),
            "round": request.round,
            "group": request.group,
            "query": request.query.digest(SCHEMA).hex(),
            "randomizer": request.randomizer.canonical.hex(),
            "coins": request.coins,
        },
        "reports": [_device_report(payload, request, record) for record in RECORDS],
    }


def _device_report(payload: bytes, request: Request, record: Mapping[str, Any]) -> dict[str, Any]:
    words = ([1 << 62, 3 << 62] * request.coins)[: request.coins]
    return {
        "record": record,
        "coins": [str(word) for word in words],
        "report": answer(sign_study(terms(), KEY), SCHEMA, record, words, payload).hex(),
    }


def reports() -> Cases:
    told = Report(bytes(range(32)), b"\x01", ONE, 2 * ONE)
    refusal = Report(bytes(range(32)), Refusal(Reason.EXPIRED), 0, 0)
    charges = {"charged_nano_nats": "1000000000", "spent_nano_nats": "2000000000"}
    free = {"charged_nano_nats": "0", "spent_nano_nats": "0"}
    name = "request_digest"
    digest = bytes(range(32)).hex()
    return [
        {
            "name": "an answer",
            "hex": encode_report(told).hex(),
            "fields": {name: digest, "symbol": "01", **charges},
        },
        {
            "name": "a refusal",
            "hex": encode_report(refusal).hex(),
            "fields": {
                name: digest,
                "refusal": {"reason": 5},
                **free,
            },
        },
    ]


def check_ins() -> Cases:
    greeting = CheckIn((b"a report",), (bytes(range(32)),))
    fields = {
        "reports": [b"a report".hex()],
        "known_studies": [bytes(range(32)).hex()],
    }
    later: dict[str, Any] = {"reports": [], "known_studies": []}
    return [
        {"name": "a first message", "hex": encode_check_in(greeting).hex(), "fields": fields},
        {"name": "a later one", "hex": encode_check_in(CheckIn()).hex(), "fields": later},
    ]


def responses() -> Cases:
    response = Response(
        acks=tuple((bytes([status]) * 32, status) for status in AckStatus),
        studies=(sign_study(terms(), KEY),),
        requests=(b"a request", b"another"),
        retry_after_ms=2_000,
    )
    fields = {
        "acks": [[f"0{number}" * 32, number] for number in range(1, 7)],
        "studies": [digest_of(encode_study(terms())).hex()],
        "requests": [b"a request".hex(), b"another".hex()],
        "retry_after_ms": 2_000,
    }
    return [{"name": "everything", "hex": encode_response(response).hex(), "fields": fields}]


GOOD = {
    "schema": schemas,
    "query": queries,
    "randomizer": randomizers,
    "study": studies,
    "signed_study": signed_studies,
    "request": requests,
    "report": reports,
    "check_in": check_ins,
    "response": responses,
}
