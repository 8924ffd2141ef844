"""Requests that once crashed, starved or filled a device, or revealed more than was charged."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import askance_client.device.core
from askance_aggregator.encoding import encode_query, encode_randomizer, sign_study
from askance_aggregator.families import k_ary_response, randomized_response
from askance_aggregator.queries import (
    category,
    clip,
    dot,
    predicate,
    where,
)
from askance_client.accounting import LEAST_LOSS
from askance_client.codec import decode_report, digest_of, parse
from askance_client.device import Device, Examiner, Policy
from askance_client.errors import RemoteProtocolError
from askance_client.ledger import MAX_ANSWERS, Ledger, LedgerFile, contract
from askance_client.messages import Reason, Refusal, Report, StudyTerms
from askance_client.queries import (
    Bit,
    Bits,
    Category,
    Integer,
    Query,
    Schema,
)
from askance_client.queries.evaluate import Compiled
from askance_client.randomizers import SystemCoins
from askance_protos.v1 import exchange_pb2, query_pb2, randomizer_pb2, schema_pb2, study_pb2
from askance_simulation.fleets.memory_ledger import MemoryLedger

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
LABELS = tuple(str(number) for number in range(12_000))
SCHEMA = Schema(
    "person",
    1,
    smoker=Bit(),
    age=Integer(0, 65_534),
    word=Category(LABELS),
    other=Category(LABELS),
    bits=Bits(4_000),
)
EPSILON = 10**8
LONG_S = 1.0  # of processor time; tens of milliseconds are usual


class AttackedDevice:
    """Device under attack, and the requests of a hostile aggregator."""

    def __init__(self, ledger: Ledger | None = None) -> None:
        self.device = Device(
            schema=SCHEMA,
            record=SCHEMA.encode({"smoker": 1, "age": 3, "word": "7", "bits": "01" * 2_000}),
            policy=Policy(frozenset({KEY.public_key().public_bytes_raw()}), 10**12),
            ledger=MemoryLedger() if ledger is None else ledger,
            coins=SystemCoins(),
            now_s=lambda: 1_700_000_000,
            examiner=Examiner(),
        )
        self.study = self.introduce(0)

    def introduce(self, number: int) -> bytes:
        terms = StudyTerms(
            number.to_bytes(16, "big"),
            "test",
            1,
            (),
            SCHEMA,
            10**12,
            2_000_000_000,
            "attack",
            fields=tuple(sorted(SCHEMA.fields)),
        )
        signed = sign_study(terms, KEY)
        assert self.device.introduce(signed) is None
        return digest_of(signed.study)

    def payload(
        self,
        query: Query | query_pb2.Query | None = None,
        randomizer: randomizer_pb2.Randomizer | None = None,
        round_: int = 0,
    ) -> bytes:
        if query is None:
            query = predicate(SCHEMA.smoker)
        return exchange_pb2.Request(
            study_digest=self.study,
            round=round_,
            query=encode_query(query) if isinstance(query, Query) else query,
            randomizer=randomizer or encode_randomizer(randomized_response(EPSILON)),
        ).SerializeToString()

    def ask(self, *args: Any, **kwargs: Any) -> Report:
        return decode_report(self.device.answer(self.payload(*args, **kwargs)))


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    if request.param == "memory":
        yield MemoryLedger()
        return
    ledger = LedgerFile.create(tmp_path / "ledger.sqlite").ledger()
    yield ledger
    ledger.close()


@pytest.mark.parametrize(("levels", "symbols"), [(2**32 - 1, 0), (0, 2**32 - 1), (0, 0)])
def test_a_table_of_many_levels_and_no_symbols_is_not_laid_out(levels: int, symbols: int) -> None:
    """0 entries are what 2^32 rows of 0 symbols need: a device built the rows, until it died."""
    table = randomizer_pb2.Table(levels=levels, symbols=symbols)
    outcome = AttackedDevice().ask(randomizer=randomizer_pb2.Randomizer(table=table)).outcome
    assert isinstance(outcome, Refusal)
    assert outcome.reason is Reason.INVALID_RANDOMIZER


def test_empty_nodes_are_counted_before_they_are_looked_at() -> None:
    """Two bytes a node: 120,000 of them in one request."""
    setup = AttackedDevice()
    turn = setup.device.begin([setup.payload(query_pb2.Query(nodes=[query_pb2.Node()] * 120_000))])
    expected = Refusal(Reason.INVALID_QUERY, "query: expected 1..4096 nodes, found 120000")
    assert turn.refusals == (expected,)
    turn.close()


def _nested() -> dict[str, tuple[Any, bytes]]:
    """A field of the future at every depth: (kind, bytes)."""
    future = b"\xe8\x3e\x01"

    def within(number: int, data: bytes) -> bytes:
        return bytes([number << 3 | 2, len(data)]) + data

    return {
        "request": (exchange_pb2.Request, future),
        "node": (exchange_pb2.Request, within(4, within(2, b"\x08\x01" + future))),
        "table": (exchange_pb2.Request, within(5, within(1, future))),
        "field": (study_pb2.Study, within(5, within(3, within(2, future)))),
        "labels": (schema_pb2.Schema, within(3, within(4, b"\x0a\x01a" + future))),
        "a known number with another wire type": (exchange_pb2.Request, b"\x08\x01"),
        "a group": (exchange_pb2.Request, b"\x7b\x7c"),
    }


@pytest.mark.parametrize("place", _nested())
def test_a_field_of_the_future_is_refused_wherever_it_stands(place: str) -> None:
    kind, data = _nested()[place]
    with pytest.raises(RemoteProtocolError, match="known fields only"):
        parse(kind, data)


def _with_labels(other: str) -> Query:
    choices = [where(SCHEMA.bits[i], SCHEMA.word, SCHEMA[other]) == "7" for i in range(1_000)]
    while len(choices) > 1:
        pairs = zip(choices[::2], choices[1::2], strict=False)
        odd = choices[-1:] if len(choices) % 2 else []
        choices = [a & b for a, b in pairs] + odd
    return predicate(choices[0])


def _heavy() -> dict[str, tuple[Query | query_pb2.Query, randomizer_pb2.Randomizer | None]]:
    word = query_pb2.Node(op=2, name="word")
    selection = randomizer_pb2.SubsetSelection(cells=65_535, size=65_534, threshold=2**63)
    return {
        "the field with most labels, as every node": (
            query_pb2.Query(kind=query_pb2.QUERY_KIND_PREDICATE, high=1, nodes=[word] * 4_096),
            None,
        ),
        "a thousand comparisons of labels with their own": (_with_labels("word"), None),
        "a thousand comparisons of two equal lists of labels": (_with_labels("other"), None),
        "nearly as many coins as cells": (
            category(SCHEMA.age),
            randomizer_pb2.Randomizer(subset_selection=selection),
        ),
    }


@pytest.mark.parametrize("name", _heavy())
def test_no_request_keeps_a_device_busy(name: str) -> None:
    setup = AttackedDevice()
    payload = setup.payload(*_heavy()[name])
    start = time.process_time()
    setup.device.answer(payload)
    assert time.process_time() - start < LONG_S


def test_a_single_device_remembers_few_examinations() -> None:
    """A request of 64 kB makes some 4 MB of expressions: 4,096 of them were 16 GB."""
    setup = AttackedDevice()
    examiner = setup.device._examiner
    for round_ in range(100):
        setup.ask(round_=round_)
    assert len(examiner._requests) <= 16


def test_an_analyst_that_signs_without_end_is_forgotten_from_the_oldest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(askance_client.device.core, "_MAX_STUDIES", 3)
    setup = AttackedDevice()
    later = [setup.introduce(number) for number in range(1, 5)]
    assert setup.device.known_studies == tuple(later[-3:])
    forgotten = setup.ask().outcome
    assert isinstance(forgotten, Refusal)
    assert forgotten.reason is Reason.UNKNOWN_STUDY


def test_replays_of_one_question_do_not_end_a_device_for_life(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """65,535 replays of one question under new rounds cost nothing and used up all answers."""
    monkeypatch.setattr(contract, "MAX_ANSWERS", 2)
    setup = AttackedDevice(ledger)
    reports = [setup.ask(round_=round_) for round_ in range(5)]
    assert [report.charged_nano_nats for report in reports] == [EPSILON, 0, 0, 0, 0]
    assert {report.outcome for report in reports} == {reports[0].outcome}
    assert setup.ask(round_=2) == reports[2]  # a retry gives the same bytes
    assert len(list(ledger.history())) == 1
    other = setup.ask(predicate(SCHEMA.age < 3))
    assert other.charged_nano_nats == EPSILON


def test_answers_that_cost_next_to_nothing_do_not_end_a_device_for_life(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """65,536 distinct questions of 1 nano-nat each, .00007 nats in all, used up all answers."""
    monkeypatch.setattr(contract, "MAX_ANSWERS", 3)
    setup = AttackedDevice(ledger)
    next_to_nothing = encode_randomizer(randomized_response(1))
    for age in range(4):
        outcome = setup.ask(predicate(SCHEMA.age < age), next_to_nothing).outcome
        assert isinstance(outcome, Refusal)
        assert outcome.reason is Reason.INVALID_RANDOMIZER
    assert list(ledger.history()) == []
    assert setup.ask(predicate(SCHEMA.age < 3)).charged_nano_nats == EPSILON


def test_as_many_answers_as_a_device_ever_gives_cost_65_nats() -> None:
    """The number of answers binds before no life budget of 65 nats or less."""
    assert MAX_ANSWERS * LEAST_LOSS == 65_536_000_000


def test_a_table_without_a_loss_is_refused(ledger: Ledger) -> None:
    """Equal rows have a loss of 0: any number of distinct questions would be free."""
    setup = AttackedDevice(ledger)
    table = randomizer_pb2.Table(levels=2, symbols=2, entries=[2**63] * 4)
    asked = setup.ask(predicate(SCHEMA.age < 1), randomizer_pb2.Randomizer(table=table))
    assert isinstance(asked.outcome, Refusal)
    assert asked.outcome.reason is Reason.INVALID_RANDOMIZER
    assert list(ledger.history()) == []


def test_a_missing_field_takes_the_same_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, the expression was skipped where a field is missing, so timing revealed it."""
    runs = []
    run = Compiled.run

    def counted(self: Compiled, slots: list[Any]) -> Any:
        runs.append(len(self.steps))
        return run(self, slots)

    monkeypatch.setattr(Compiled, "run", counted)
    query = predicate((SCHEMA.age < 5) & SCHEMA.smoker, default=1)
    values = [
        query.evaluate(SCHEMA.encode(record))
        for record in ({"age": 7, "smoker": 1}, {"age": 7}, {"smoker": 0}, {})
    ]
    assert values == [0, 1, 1, 1]
    assert len(runs) == 4
    assert len(set(runs)) == 1


def test_an_expression_is_never_expanded_to_be_shown() -> None:
    """Eight of eight of eight ...: 125 MB for a query of a few nodes."""
    expression = SCHEMA.age
    for _ in range(10):
        expression = clip(dot([1] * 8, [expression] * 8), 0, 3)
    assert len(repr(expression)) < 10_000


def test_equal_labels_are_one_object() -> None:
    assert SCHEMA.word.labels is SCHEMA.other.labels
    assert Category(["a", "b"]) == Category(["a", "b"]) != Category(["b", "a"])


def test_a_frozen_answer_is_free_in_another_study_and_says_nothing_new(ledger: Ledger) -> None:
    setup = AttackedDevice(ledger)
    randomizer = encode_randomizer(k_ary_response(12_000, EPSILON))
    first = setup.ask(category(SCHEMA.word), randomizer)
    setup.study = setup.introduce(1)
    again = setup.ask(category(SCHEMA.word), randomizer)
    assert (again.outcome, again.charged_nano_nats) == (first.outcome, 0)
    other = setup.ask(category(SCHEMA.other), randomizer)  # the same law over another field
    assert other.charged_nano_nats == first.charged_nano_nats
