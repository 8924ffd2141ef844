"""The golden vectors of tests/vectors, replayed: what bytes mean, and which are refused."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import askance_client.errors
import askance_client.service.exchange
from askance_aggregator.encoding import (
    encode_query,
    encode_randomizer,
    encode_request,
    encode_schema,
    encode_study,
)
from askance_aggregator.exchange import (
    decode_check_in,
    encode_response,
)
from askance_client.codec import (
    decode_query,
    decode_randomizer,
    decode_report,
    decode_request,
    decode_study,
    digest_of,
    encode_report,
    parse,
    verify_study,
)
from askance_client.codec.exchange import study_of
from askance_client.codec.studies import decode_schema
from askance_client.device import Device, Examiner, Policy
from askance_client.exact_laws import valid
from askance_client.messages import (
    Conduct,
    Reason,
    Refusal,
    Report,
    Request,
    SignedStudy,
    StudyTerms,
)
from askance_client.queries import (
    Bit,
    Bits,
    Category,
    Field,
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
    decode_response,
    encode_check_in,
)
from askance_protos.v1 import query_pb2, randomizer_pb2, schema_pb2, study_pb2
from askance_simulation.fleets.memory_ledger import MemoryLedger

ROOT = Path(__file__).parents[2]
VECTORS = ROOT / "tests" / "vectors" / "v1"
FILES = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(VECTORS.glob("*.json"))}


def data_of(case: Mapping[str, Any]) -> bytes:
    if "hex" in case:
        return bytes.fromhex(case["hex"])
    return b"".join(bytes.fromhex(part) * times for part, times in case["parts"])


def schema() -> Schema:
    return decode_schema(parse(schema_pb2.Schema, data_of(FILES["schema"]["cases"][0])))


def signed_study() -> SignedStudy:
    return decode_signed(data_of(FILES["signed_study"]["cases"][0]))


def decode_signed(data: bytes) -> SignedStudy:
    message = parse(study_pb2.SignedStudy, data)
    return SignedStudy(message.study, message.public_key, message.signature)


def decode_known_request(data: bytes) -> Request:
    """Decode as a device does: first whose request it is, then its question."""
    study = study_of(data)
    request = decode_request(data, schema())
    assert request.study_digest == study
    return request


def encode_signed(study: SignedStudy) -> bytes:
    return study_pb2.SignedStudy(
        study=study.study, public_key=study.public_key, signature=study.signature
    ).SerializeToString(deterministic=True)


# For each kind: bytes to value, value to bytes, value to what the vectors say of it.
def describe_field(field: Field) -> dict[str, Any]:
    match field:
        case Bit():
            return {"type": "bit"}
        case Bits(width):
            return {"type": "bits", "length": width}
        case Label(labels):
            return {"type": "label", "labels": list(labels)}
        case Category(labels):
            return {"type": "category", "labels": list(labels)}
        case Integer(low, high):
            return {"type": "integer", "low": str(low), "high": str(high)}
        case Real():
            bounds = {"low": str(field.low_mantissa), "high": str(field.high_mantissa)}
            return {"type": "real", **bounds, "frac_bits": field.frac_bits}
    raise AssertionError(field)


def describe_schema(value: Schema) -> dict[str, Any]:
    fields = {
        name: describe_field(field) | ({"required": True} if field.required else {})
        for name, field in value.fields.items()
    }
    return {"name": value.name, "version": value.version, "fields": fields}


def describe_query(value: Query) -> dict[str, Any]:
    return {
        "kind": value.kind.name,
        "low": str(value.low),
        "high": str(value.high),
        "default": str(value.default),
        "frac": value.frac,
        "nodes": len(value.nodes),
        "fields_used": sorted(value.fields_used),
    }


def describe_randomizer(value: Randomizer) -> dict[str, Any]:
    said: dict[str, Any]
    match value:
        case Channel():
            said = {"family": "table"}
        case KaryResponse(cells, other):
            said = {"family": "k-ary", "cells": cells, "other": str(other)}
        case SubsetSelection(cells, size, threshold):
            said = {"family": "subset", "cells": cells, "size": size, "threshold": str(threshold)}
        case LinearHashing(cells, modulus, other):
            said = {"family": "hashing", "cells": cells, "modulus": modulus, "other": str(other)}
        case HypercubeResponse(components, radius, threshold):
            said = {
                "family": "hypercube",
                "components": components,
                "radius": radius,
                "threshold": str(threshold),
            }
        case RandomCodebook(components, radius, bases, near, threshold, seed_bits):
            said = {"family": "codebook", "components": components, "radius": str(radius)}
            said |= {"bases": bases, "near": near, "threshold": str(threshold)}
            said |= {"seed_bits": seed_bits}
        case HadamardSign(values, threshold):
            said = {"family": "sign", "values": values, "threshold": str(threshold)}
        case SignedSubsetSelection(values, size, threshold):
            said = {"family": "signed subset", "values": values, "size": size}
            said |= {"threshold": str(threshold)}
    return said | {
        "levels": value.levels,
        "coins": value.coins,
        "width": value.width,
        "canonical": value.canonical.hex(),
        "loss": [str(value.loss.numerator), str(value.loss.denominator)],
        "nano_nats": str(value.loss.nano_nats),
    }


def describe_study(value: StudyTerms) -> dict[str, Any]:
    told = value.conduct
    conduct = {
        "beta": str(told.beta),
        "confidence": str(told.confidence),
        "round_deadline_s": told.round_deadline_s,
        "least_answers": told.least_answers,
        "waves": told.waves,
    }
    said: dict[str, Any] = {"distribution": value.distribution} if value.distribution else {}
    if value.most_answers != 4_096:
        said["most_answers"] = value.most_answers
    if value.repeat is not None:
        said["repeat"] = asdict(value.repeat)
    return (
        said
        | ({} if told == Conduct() else {"conduct": conduct})
        | {
            "nonce": value.nonce.hex(),
            "learner": value.learner,
            "learner_version": value.learner_version,
            "parameters": [list(parameter) for parameter in value.parameters],
            "schema": value.schema.digest.hex(),
            "budget_nano_nats": str(value.budget_nano_nats),
            "expires_unix_s": str(value.expires_unix_s),
            "purpose": value.purpose,
            "fields": list(value.fields),
        }
    )


def describe_signed(value: SignedStudy) -> dict[str, Any]:
    assert verify_study(value)
    return {
        "study": digest_of(value.study).hex(),
        "public_key": value.public_key.hex(),
        "signature": value.signature.hex(),
    }


def describe_request(value: Request) -> dict[str, Any]:
    return {
        "study_digest": value.study_digest.hex(),
        "round": value.round,
        "group": value.group,
        "query": value.query.digest(schema()).hex(),
        "randomizer": value.randomizer.canonical.hex(),
        "coins": value.coins,
    }


def describe_report(value: Report) -> dict[str, Any]:
    said = {
        "request_digest": value.request_digest.hex(),
        "charged_nano_nats": str(value.charged_nano_nats),
        "spent_nano_nats": str(value.spent_nano_nats),
    }
    if isinstance(value.outcome, Refusal):
        refusal = {"reason": int(value.outcome.reason)}
        return {**said, "refusal": refusal}
    return {**said, "symbol": value.outcome.hex()}


def describe_check_in(value: CheckIn) -> dict[str, Any]:
    return {
        "reports": [report.hex() for report in value.reports],
        "known_studies": [digest.hex() for digest in value.known_studies],
    }


def describe_response(value: Response) -> dict[str, Any]:
    return {
        "acks": [[digest.hex(), int(status)] for digest, status in value.acks],
        "studies": [digest_of(study.study).hex() for study in value.studies],
        "requests": [request.hex() for request in value.requests],
        "retry_after_ms": value.retry_after_ms,
    }


Kind = tuple[Callable[[bytes], Any], Callable[[Any], bytes], Callable[[Any], dict[str, Any]]]


def serialised(encode: Callable[[Any], Any]) -> Callable[[Any], bytes]:
    return lambda value: bytes(encode(value).SerializeToString(deterministic=True))


KINDS: dict[str, Kind] = {
    "schema": (
        lambda data: decode_schema(parse(schema_pb2.Schema, data)),
        serialised(encode_schema),
        describe_schema,
    ),
    "query": (
        lambda data: decode_query(parse(query_pb2.Query, data), schema()),
        serialised(encode_query),
        describe_query,
    ),
    "randomizer": (
        lambda data: decode_randomizer(parse(randomizer_pb2.Randomizer, data)),
        serialised(encode_randomizer),
        describe_randomizer,
    ),
    "study": (decode_study, encode_study, describe_study),
    "signed_study": (decode_signed, encode_signed, describe_signed),
    "request": (decode_known_request, encode_request, describe_request),
    "report": (decode_report, encode_report, describe_report),
    "check_in": (decode_check_in, encode_check_in, describe_check_in),
    "response": (decode_response, encode_response, describe_response),
}


def cases(good: bool, kinds: set[str] | None = None) -> list[Any]:
    return [
        pytest.param(file["kind"], case, id=f"{file['kind']}: {case['name']}")
        for name, file in FILES.items()
        if name.startswith("bad_") != good and (kinds is None or file["kind"] in kinds)
        for case in file["cases"]
    ]


def test_every_kind_has_good_and_bad_vectors() -> None:
    assert set(FILES) == set(KINDS) | {f"bad_{kind}" for kind in KINDS}


@pytest.mark.parametrize(("kind", "case"), cases(good=True))
def test_a_good_vector_says_what_it_says(kind: str, case: dict[str, Any]) -> None:
    decode, encode, describe = KINDS[kind]
    data = data_of(case)
    value = decode(data)
    said = describe(value)
    assert {key: said.get(key) for key in case["fields"]} == case["fields"]
    assert encode(value) == data
    if kind == "schema":
        assert value.digest.hex() == case["digest"]
    elif kind == "query":
        assert value.digest(schema()).hex() == case["digest"]
    elif "digest" in case:
        assert hashlib.sha256(data).hexdigest() == case["digest"]


@pytest.mark.parametrize(("kind", "case"), cases(good=True, kinds={"query"}))
def test_a_query_has_these_values(kind: str, case: dict[str, Any]) -> None:
    query = KINDS[kind][0](data_of(case))
    for answer in case["answers"]:
        record = schema().encode(answer["record"])
        if query.kind is QueryKind.VECTOR:
            values = query.evaluate_vector(record)
            assert ",".join(map(str, values)) == answer["value"]
        else:
            assert query.evaluate(record) == int(answer["value"])


@pytest.mark.parametrize(("kind", "case"), cases(good=True, kinds={"randomizer"}))
def test_a_randomizer_draws_these_reports(kind: str, case: dict[str, Any]) -> None:
    randomizer = KINDS[kind][0](data_of(case))
    for draw in case["draws"]:
        coins = [int(coin) for coin in draw["coins"]]
        report = randomizer.randomize(int(draw["level"]), coins)
        assert report.hex() == draw["report"]
        assert valid(randomizer, report)
    assert not any(valid(randomizer, bytes.fromhex(other)) for other in case.get("no_reports", ()))


class GivenCoins:
    def __init__(self, words: list[int]) -> None:
        self._words = tuple(words)

    def words(self, request: bytes, count: int) -> tuple[int, ...]:
        assert count == len(self._words)
        return self._words


@pytest.mark.parametrize(("kind", "case"), cases(good=True, kinds={"request"}))
def test_a_device_answers_a_request_with_these_bytes(kind: str, case: dict[str, Any]) -> None:
    study = signed_study()
    for vector in case["reports"]:
        device = Device(
            schema=schema(),
            record=schema().encode(vector["record"]),
            policy=Policy(frozenset({study.public_key}), 10**12),
            ledger=MemoryLedger(),
            coins=GivenCoins([int(coin) for coin in vector["coins"]]),
            now_s=lambda: 1_700_000_000,
            examiner=Examiner(),
        )
        assert device.introduce(study) is None
        assert device.answer(data_of(case)).hex() == vector["report"]


@pytest.mark.parametrize(("kind", "case"), cases(good=False))
def test_a_bad_vector_is_refused_with_its_reason(kind: str, case: dict[str, Any]) -> None:
    data = data_of(case)
    if kind == "signed_study":
        study = decode_signed(data)
        assert not verify_study(study)
        examined = Examiner().study(study)
        assert isinstance(examined, Refusal)
        assert examined.reason is Reason[case["error"]]
        return
    error = getattr(askance_client.errors, case["error"], None)
    error = error or getattr(askance_client.service.exchange, case["error"])
    with pytest.raises(error) as caught:
        KINDS[kind][0](data)
    assert type(caught.value) is error
    assert case["says"]
    assert case["says"] in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_generator_gives_these_files(tmp_path: Path) -> None:
    path = os.pathsep.join([*sys.path, str(ROOT)])
    subprocess.run(
        [sys.executable, "-m", "tests.vectors.generate", str(tmp_path)],
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
    )
    made = {file.name: file.read_text("utf-8") for file in tmp_path.iterdir()}
    assert made == {file.name: file.read_text("utf-8") for file in VECTORS.iterdir()}
