"""Answers to the kit's cases: a function per kind, from a case's input to its answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from tests.conformance.verifier import studies, wire
from tests.conformance.verifier.device import Device, Policy
from tests.conformance.verifier.families import Family, InvalidRandomizer, round_to
from tests.conformance.verifier.inference import Invalid
from tests.conformance.verifier.losses import charge
from tests.conformance.verifier.queries import Query, query_of
from tests.conformance.verifier.randomizers import randomizer_of
from tests.conformance.verifier.schemas import Schema, schema_of
from tests.conformance.verifier.studies import sha256
from tests.conformance.verifier.wire import Malformed

Json = dict[str, Any]


def answer(kind: str, given: Json) -> Json:
    """The answer to one case: its fields, or the reason of a refusal."""
    if kind not in KINDS:
        return {"unsupported": kind}
    try:
        return KINDS[kind](given)
    except Malformed:
        return {"refused": "MALFORMED"}
    except Invalid:
        return {"refused": "INVALID_QUERY"}
    except InvalidRandomizer:
        return {"refused": "INVALID_RANDOMIZER"}


def _bytes(given: Json, name: str = "bytes") -> bytes:
    """Bytes in hexadecimal; of what is long, a list of [hex, times]."""
    data = given[name]
    if isinstance(data, str):
        return bytes.fromhex(data)
    return b"".join(bytes.fromhex(part) * times for part, times in data)


def _schema_in(given: Json, name: str = "schema") -> Schema:
    return _schema_from(_bytes(given, name))


@lru_cache(maxsize=16)
def _schema_from(data: bytes) -> Schema:
    return schema_of(wire.decode(wire.SCHEMA, data))


def _query_in(given: Json, name: str = "query") -> Query:
    return query_of(wire.decode(wire.QUERY, _bytes(given, name)), _schema_in(given))


def _randomizer_in(given: Json, name: str = "randomizer") -> Family:
    return randomizer_of(wire.decode(wire.RANDOMIZER, _bytes(given, name)))


def _words(given: Json) -> list[int]:
    return [int(coin) for coin in given["coins"]]


def _schema(given: Json) -> Json:
    schema = _schema_in(given, "bytes")
    return {"canonical": schema.canonical.hex(), "digest": schema.digest.hex()}


def _record(given: Json) -> Json:
    schema = _schema_in(given)
    read = schema.read(given["record"])
    return {"values": {name: _shown(value) for name, value in read.items()}}


def _shown(value: Any) -> str | None:
    if value is None:
        return None
    return "".join(map(str, value)) if isinstance(value, list) else str(value)


def _query(given: Json) -> Json:
    query = _query_in(given, "bytes")
    return {
        "canonical": query.canonical.hex(),
        "digest": query.digest(_schema_in(given)).hex(),
        "fields": sorted(query.fields),
        "frac": query.values[-1].frac,
    }


def _evaluate(given: Json) -> Json:
    schema, query = _schema_in(given), _query_in(given)
    values = [query.evaluate(schema.read(record), schema) for record in given["records"]]
    return {"values": [list(map(str, row)) for row in values]}


def _randomizer(given: Json) -> Json:
    randomizer = _randomizer_in(given, "bytes")
    return {
        "digest": sha256(randomizer.canonical).hex(),
        "levels": f"{randomizer.levels:x}",
        "coins": randomizer.coins,
        "width": randomizer.width,
        "loss": list(map(str, randomizer.loss)),
        "nano_nats": str(randomizer.nano_nats),
    }


def _loss(given: Json) -> Json:
    return {"nano_nats": str(charge(int(given["numerator"]), int(given["denominator"])))}


def _draw(given: Json) -> Json:
    randomizer = _randomizer_in(given)
    reports = [randomizer.draw(int(draw["level"], 16), _words(draw)) for draw in given["draws"]]
    return {"reports": [report.hex() for report in reports]}


def _alphabet(given: Json) -> Json:
    randomizer = _randomizer_in(given)
    return {"valid": [randomizer.valid(bytes.fromhex(report)) for report in given["reports"]]}


def _level(given: Json) -> Json:
    randomizer, words = _randomizer_in(given), _words(given)
    low, high = int(given["low"]), int(given["high"])
    values = [int(value) for value in given["values"]]
    if randomizer.components:
        level = randomizer.vector_level(values, low, high, words)
    else:
        level = round_to(values[0], low, high, randomizer.levels, words[0])
    return {"level": f"{level:x}"}


def _study(given: Json) -> Json:
    data = _bytes(given)
    study, schema = studies.study_of(data)
    return {
        "digest": sha256(data).hex(),
        "nonce": study["nonce"].hex(),
        "learner": study["learner"],
        "learner_version": study["learner_version"],
        "parameters": [[p["name"], p["value"]] for p in study["parameters"]],
        "schema": schema.digest.hex(),
        "budget_nano_nats": str(study["budget_nano_nats"]),
        "expires_unix_s": str(study["expires_unix_s"]),
        "purpose": study["purpose"],
        "fields": study["fields"],
        "distribution": study["distribution"],
        "repeat": study["repeat"],
    }


def _signature(given: Json) -> Json:
    parts = (_bytes(given, name) for name in ("study", "public_key", "signature"))
    return {"holds": studies.signature_holds(*parts)}


def _request(given: Json) -> Json:
    request = studies.request_of(_bytes(given), _schema_in(given))
    return {
        "digest": request.digest.hex(),
        "study": request.study.hex(),
        "round": request.round,
        "group": request.group,
        "query": request.query.digest(request.schema).hex(),
        "coins": request.coins,
        "nano_nats": str(request.randomizer.nano_nats),
        "question": request.question.hex(),
    }


def _report(given: Json) -> Json:
    report = studies.report_of(_bytes(given))
    refusal = report["refusal"]
    return {
        "request_digest": report["request_digest"].hex(),
        "symbol": None if refusal else report["symbol"].hex(),
        "refusal": studies.REASONS[refusal["reason"]] if refusal else None,
        "charged_nano_nats": str(report["charged_nano_nats"]),
        "spent_nano_nats": str(report["spent_nano_nats"]),
        "sequence": str(report["sequence"]),
    }


def _check_in(given: Json) -> Json:
    message = studies.check_in_of(_bytes(given))
    return {name: [data.hex() for data in message[name]] for name in message}


def _response(given: Json) -> Json:
    message = studies.response_of(_bytes(given))
    return {
        "acks": [[ack["request_digest"].hex(), ack["status"]] for ack in message["acks"]],
        "studies": [sha256(signed["study"]).hex() for signed in message["studies"]],
        "requests": [data.hex() for data in message["requests"]],
        "retry_after_ms": message["retry_after_ms"],
        "acknowledged_sequence": str(message["acknowledged_sequence"]),
    }


def _ledger(given: Json) -> Json:
    policy = given["policy"]
    day, study = (None if policy[n] is None else int(policy[n]) for n in ("day", "study"))
    keys = [bytes.fromhex(key) for key in policy["analysts"]]
    owner = Policy(keys, int(policy["life"]), day, study, policy["fields"])
    device = Device(_schema_in(given), given["record"], owner)
    return {"steps": [STEPS[step["do"]](device, step) for step in given["steps"]]}


def _introduce(device: Device, step: Json) -> Json:
    return {"refused": device.introduce(_bytes(step, "study"))}


def _ask(device: Device, step: Json) -> Json:
    requests = [bytes.fromhex(payload) for payload in step["requests"]]
    words = [[int(coin) for coin in coins] for coins in step["coins"]]
    outcomes = device.ask(int(step["at_s"]), requests, words)
    return {"reports": [[word, None if data is None else data.hex()] for word, data in outcomes]}


def _restart(device: Device, step: Json) -> Json:
    device.restart()
    return {}


def _sequence(device: Device, step: Json) -> Json:
    return {"sequence": len(device.ledger.charges)}


STEPS: dict[str, Callable[[Device, Json], Json]] = {
    "introduce": _introduce,
    "ask": _ask,
    "restart": _restart,
    "sequence": _sequence,
}
KINDS: dict[str, Callable[[Json], Json]] = {
    "schema": _schema,
    "record": _record,
    "query": _query,
    "evaluate": _evaluate,
    "randomizer": _randomizer,
    "loss": _loss,
    "draw": _draw,
    "alphabet": _alphabet,
    "level": _level,
    "study": _study,
    "signature": _signature,
    "request": _request,
    "report": _report,
    "check_in": _check_in,
    "response": _response,
    "ledger": _ledger,
}
