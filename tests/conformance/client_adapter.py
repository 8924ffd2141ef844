"""Adapter of the client: the kit's cases, answered by `askance_client`.

python -m tests.conformance.client_adapter
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from askance_aggregator.exchange import (
    decode_check_in,
)
from askance_client.accounting import charge
from askance_client.codec import (
    decode_query,
    decode_randomizer,
    decode_report,
    decode_request,
    decode_study,
    digest_of,
    parse,
    verify_study,
)
from askance_client.codec.exchange import study_of
from askance_client.codec.studies import decode_schema
from askance_client.device import Device, Examiner, Policy
from askance_client.errors import InvalidParameter, InvalidQuery, RemoteProtocolError
from askance_client.exact_laws import valid
from askance_client.ledger import LedgerFile
from askance_client.messages import Refusal, SignedStudy
from askance_client.queries import Query, QueryKind, Schema
from askance_client.randomizers import Randomizer, round_to_levels
from askance_client.service import (
    decode_response,
)
from askance_protos.v1 import query_pb2, randomizer_pb2, schema_pb2, study_pb2

Json = dict[str, Any]
SYNTAX = {"schema", "study", "report", "check_in", "response"}
"""Kinds all of whose refusals are MALFORMED: they are no question."""


def answer(kind: str, given: Json) -> Json:
    """The client's answer to one case."""
    if kind not in KINDS:
        return {"unsupported": kind}
    try:
        return KINDS[kind](given)
    except InvalidQuery:
        return {"refused": "INVALID_QUERY"}
    except InvalidParameter:
        return {"refused": "MALFORMED" if kind in SYNTAX else "INVALID_RANDOMIZER"}
    except RemoteProtocolError:
        return {"refused": "MALFORMED"}


def _bytes(given: Json, name: str = "bytes") -> bytes:
    data = given[name]
    if isinstance(data, str):
        return bytes.fromhex(data)
    return b"".join(bytes.fromhex(part) * times for part, times in data)


def _schema_in(given: Json, name: str = "schema") -> Schema:
    return _schema_from(_bytes(given, name))


@lru_cache(maxsize=16)
def _schema_from(data: bytes) -> Schema:
    return decode_schema(parse(schema_pb2.Schema, data))


def _query_in(given: Json, name: str = "query") -> Query:
    return decode_query(parse(query_pb2.Query, _bytes(given, name)), _schema_in(given))


def _randomizer_in(given: Json, name: str = "randomizer") -> Randomizer:
    return decode_randomizer(parse(randomizer_pb2.Randomizer, _bytes(given, name)))


def _words(given: Json) -> list[int]:
    return [int(coin) for coin in given["coins"]]


def _schema(given: Json) -> Json:
    schema = _schema_in(given, "bytes")
    return {"canonical": schema.canonical.hex(), "digest": schema.digest.hex()}


def _record(given: Json) -> Json:
    schema = _schema_in(given)
    encoded = schema.encode(given["record"])
    values: dict[str, str | None] = {}
    for name, field in schema.fields.items():
        value = encoded.values[name]
        if isinstance(value, tuple):
            number = sum(word << 32 * place for place, word in enumerate(value))
            values[name] = f"{number:0{field.type.width}b}"[::-1]
        else:
            values[name] = str(value)
        if not encoded.present[name]:
            values[name] = None
    return {"values": values}


def _query(given: Json) -> Json:
    query = _query_in(given, "bytes")
    return {
        "canonical": query.canonical.hex(),
        "digest": query.digest(_schema_in(given)).hex(),
        "fields": sorted(query.fields_used),
        "frac": query.frac,
    }


def _evaluate(given: Json) -> Json:
    schema, query = _schema_in(given), _query_in(given)
    records = [schema.encode(record) for record in given["records"]]
    if query.kind is QueryKind.VECTOR:
        values: list[Sequence[int]] = [query.evaluate_vector(record) for record in records]
    else:
        values = [[query.evaluate(record)] for record in records]
    return {"values": [list(map(str, row)) for row in values]}


def _randomizer(given: Json) -> Json:
    randomizer = _randomizer_in(given, "bytes")
    loss = randomizer.loss
    return {
        "digest": sha256(randomizer.canonical).hexdigest(),
        "levels": f"{randomizer.levels:x}",
        "coins": randomizer.coins,
        "width": randomizer.width,
        "loss": [str(loss.numerator), str(loss.denominator)],
        "nano_nats": str(loss.nano_nats),
    }


def _loss(given: Json) -> Json:
    return {"nano_nats": str(charge(int(given["numerator"]), int(given["denominator"])))}


def _draw(given: Json) -> Json:
    randomizer = _randomizer_in(given)
    draws = [(int(draw["level"], 16), _words(draw)) for draw in given["draws"]]
    return {"reports": [randomizer.randomize(*draw).hex() for draw in draws]}


def _alphabet(given: Json) -> Json:
    randomizer = _randomizer_in(given)
    return {"valid": [valid(randomizer, bytes.fromhex(report)) for report in given["reports"]]}


def _level(given: Json) -> Json:
    randomizer, words = _randomizer_in(given), _words(given)
    low, high = int(given["low"]), int(given["high"])
    values = [int(value) for value in given["values"]]
    if randomizer.vector_components:
        return {"level": f"{randomizer.vector_level(values, low, high, words):x}"}
    return {"level": f"{round_to_levels(values[0], low, high, randomizer.levels, words[0]):x}"}


def _study(given: Json) -> Json:
    data = _bytes(given)
    study = decode_study(data)
    return {
        "digest": digest_of(data).hex(),
        "nonce": study.nonce.hex(),
        "learner": study.learner,
        "learner_version": study.learner_version,
        "parameters": [list(pair) for pair in study.parameters],
        "schema": study.schema.digest.hex(),
        "budget_nano_nats": str(study.budget_nano_nats),
        "expires_unix_s": str(study.expires_unix_s),
        "purpose": study.purpose,
        "fields": list(study.fields),
        "distribution": study.distribution,
        "repeat": None if study.repeat is None else asdict(study.repeat),
    }


def _signature(given: Json) -> Json:
    parts = (_bytes(given, name) for name in ("study", "public_key", "signature"))
    return {"holds": verify_study(SignedStudy(*parts))}


def _request(given: Json) -> Json:
    data, schema = _bytes(given), _schema_in(given)
    study_of(data)
    request = decode_request(data, schema)
    query, randomizer = request.query.digest(schema), request.randomizer
    return {
        "digest": digest_of(data).hex(),
        "study": request.study_digest.hex(),
        "round": request.round,
        "group": request.group,
        "query": query.hex(),
        "coins": request.coins,
        "nano_nats": str(randomizer.loss.nano_nats),
        "question": sha256(query + randomizer.canonical).hexdigest(),
    }


def _report(given: Json) -> Json:
    report = decode_report(_bytes(given))
    return {
        "request_digest": report.request_digest.hex(),
        "symbol": None if isinstance(report.outcome, Refusal) else report.outcome.hex(),
        "refusal": report.outcome.reason.name if isinstance(report.outcome, Refusal) else None,
        "charged_nano_nats": str(report.charged_nano_nats),
        "spent_nano_nats": str(report.spent_nano_nats),
        "sequence": str(report.sequence),
    }


def _check_in(given: Json) -> Json:
    message = decode_check_in(_bytes(given))
    return {
        "reports": [report.hex() for report in message.reports],
        "known_studies": [digest.hex() for digest in message.known_studies],
    }


def _response(given: Json) -> Json:
    message = decode_response(_bytes(given))
    return {
        "acks": [[digest.hex(), int(status)] for digest, status in message.acks],
        "studies": [digest_of(study.study).hex() for study in message.studies],
        "requests": [request.hex() for request in message.requests],
        "retry_after_ms": message.retry_after_ms,
        "acknowledged_sequence": str(message.acknowledged_sequence),
    }


class GivenCoins:
    """Words of a script's step, by the request's digest."""

    def __init__(self) -> None:
        self.given: dict[bytes, tuple[int, ...]] = {}

    def words(self, request: bytes, count: int) -> tuple[int, ...]:
        """The words for a request."""
        words = self.given[request]
        if len(words) != count:
            raise ValueError(f"coins: expected {count} words, got {len(words)}")
        return words


class Script:
    """A device with a ledger on the disk, led through the steps of a case."""

    def __init__(self, given: Json, folder: Path) -> None:
        self._given, self._path = given, folder / "ledger.sqlite"
        self._coins, self._now_s = GivenCoins(), 0
        self._ledger = LedgerFile.create(self._path).ledger()
        self._device = self._started()

    def _started(self) -> Device:
        given, policy = self._given, self._given["policy"]
        day, study = (None if policy[n] is None else int(policy[n]) for n in ("day", "study"))
        schema = _schema_in(given)
        return Device(
            schema=schema,
            record=schema.encode(given["record"]),
            policy=Policy(
                frozenset(map(bytes.fromhex, policy["analysts"])),
                int(policy["life"]),
                day,
                study,
                None if policy["fields"] is None else frozenset(policy["fields"]),
            ),
            ledger=self._ledger,
            coins=self._coins,
            now_s=lambda: self._now_s,
            examiner=Examiner(),
        )

    def run(self) -> Json:
        """The answers to all steps."""
        steps = [getattr(self, f"_{step['do']}")(step) for step in self._given["steps"]]
        self._ledger.close()
        return {"steps": steps}

    def _introduce(self, step: Json) -> Json:
        message = parse(study_pb2.SignedStudy, _bytes(step, "study"))
        signed = SignedStudy(message.study, message.public_key, message.signature)
        refusal = self._device.introduce(signed)
        return {"refused": "" if refusal is None else refusal.reason.name}

    def _ask(self, step: Json) -> Json:
        self._now_s = int(step["at_s"])
        payloads = [bytes.fromhex(payload) for payload in step["requests"]]
        digests = list(map(digest_of, payloads))
        words = [tuple(map(int, coins)) for coins in step["coins"]]
        self._coins.given = dict(zip(reversed(digests), reversed(words), strict=True))
        before = {digest for digest in digests if self._ledger.stored(digest) is not None}
        reports: dict[bytes, bytes] = {}
        left: Sequence[bytes] = payloads
        while left:
            turn = self._device.begin(left)
            turn.work.answer()
            reports |= turn.finish()
            left = turn.left
        return {"reports": [_outcome(reports.get(d), d in before) for d in digests]}

    def _restart(self, step: Json) -> Json:
        self._ledger.close()
        self._ledger = LedgerFile.open(self._path).ledger()
        self._device = self._started()
        return {}

    def _sequence(self, step: Json) -> Json:
        return {"sequence": self._ledger.sequence}


def _outcome(data: bytes | None, resent: bool) -> list[str | None]:
    """The word and the bytes of a report."""
    if data is None:
        return ["silent", None]
    report = decode_report(data)
    if isinstance(report.outcome, Refusal):
        return [report.outcome.reason.name, data.hex()]
    if resent:
        return ["resent", data.hex()]
    return ["charged" if report.sequence else "reused", data.hex()]


def _ledger(given: Json) -> Json:
    with tempfile.TemporaryDirectory() as folder:
        return Script(given, Path(folder)).run()


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


if __name__ == "__main__":
    for line in sys.stdin:
        asked = json.loads(line)
        reply = {"id": asked["id"], "answer": answer(asked["kind"], asked["input"])}
        print(json.dumps(reply), flush=True)
