"""An analyst, a schema, studies, and devices whose coins the test chooses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator.encoding import encode_request, sign_study
from askance_aggregator.families import randomized_response
from askance_aggregator.queries import predicate
from askance_client.accounting import parse_epsilon
from askance_client.codec import decode_report, digest_of
from askance_client.device import Device, Examiner, Policy
from askance_client.ledger import Ledger
from askance_client.messages import (
    DEFAULT_ANSWERS,
    Refusal,
    Repeat,
    Report,
    Request,
    SignedStudy,
    StudyTerms,
)
from askance_client.queries import (
    Bit,
    Category,
    Query,
    Real,
    Schema,
)
from askance_client.randomizers import Coins, Randomizer
from askance_simulation.fleets.memory_ledger import MemoryLedger

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
STRANGER = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
SCHEMA = Schema(
    "person", 1, smoker=Bit(), colour=Category(("red", "green", "blue")), height=Real(0, 4)
)
RECORD = {"smoker": 1, "colour": "green", "height": Fraction(5, 2)}
DAY = 86_400
NOW = 20_000 * DAY + 100
EPSILON = parse_epsilon("0.5")


class ChosenCoins:
    """Coins from a list, then zeros; remembers how many were drawn each time."""

    def __init__(self, words: Iterable[int] = ()) -> None:
        self.ahead = list(words)
        self.draws: list[int] = []

    def words(self, request: bytes, count: int) -> tuple[int, ...]:
        self.draws.append(count)
        drawn = self.ahead[:count]
        del self.ahead[:count]
        return tuple(drawn + [0] * (count - len(drawn)))


class DeviceSetup:
    """Makes studies, requests and devices."""

    schema, key, stranger, epsilon = SCHEMA, KEY, STRANGER, EPSILON
    now_s = NOW

    def __init__(self) -> None:
        self.examiner = Examiner()

    def study(
        self,
        nonce: int = 0,
        *,
        budget: int = 100 * EPSILON,
        expires: int = NOW + DAY,
        schema: Schema = SCHEMA,
        key: Ed25519PrivateKey = KEY,
        fields: Iterable[str] | None = None,
        repeat: Repeat | None = None,
        answers: int = DEFAULT_ANSWERS,
    ) -> SignedStudy:
        """A study that signs all fields of its schema, or those that are given."""
        terms = StudyTerms(
            nonce.to_bytes(16, "big"),
            "test",
            1,
            (),
            schema,
            budget,
            expires,
            "to be tested",
            fields=tuple(sorted(schema.fields if fields is None else fields)),
            repeat=repeat,
            most_answers=answers,
        )
        return sign_study(terms, key)

    def payload(
        self,
        study: SignedStudy,
        query: Query | None = None,
        randomizer: Randomizer | None = None,
        round_: int = 0,
        epoch: int = 0,
    ) -> bytes:
        return encode_request(
            Request(
                digest_of(study.study),
                round_,
                0,
                query or predicate(SCHEMA.smoker == 1),
                randomizer or randomized_response(EPSILON),
                epoch,
            )
        )

    def device(
        self,
        record: Mapping[str, Any] = RECORD,
        *,
        ledger: Ledger | None = None,
        coins: Coins | None = None,
        studies: Iterable[SignedStudy] = (),
        **policy: Any,
    ) -> Device:
        policy.setdefault("life_nano_nats", 100 * EPSILON)
        policy.setdefault("analysts", frozenset({KEY.public_key().public_bytes_raw()}))
        device = Device(
            schema=SCHEMA,
            record=SCHEMA.encode(record),
            policy=Policy(**policy),
            ledger=MemoryLedger() if ledger is None else ledger,
            coins=ChosenCoins() if coins is None else coins,
            now_s=lambda: self.now_s,
            examiner=self.examiner,
        )
        for study in studies:
            assert device.introduce(study) is None
        return device

    @staticmethod
    def answer(device: Device, payload: bytes) -> Report:
        report = decode_report(device.answer(payload))
        assert report.request_digest == digest_of(payload)
        return report

    def refusal(self, device: Device, payload: bytes) -> Refusal:
        """The refusal of a request, which must not have cost or changed anything."""
        before = list(device.ledger.history())
        turn = device.begin((payload,))
        (told,) = turn.refusals  # to the owner, with a text
        report = decode_report(turn.finish()[digest_of(payload)])
        assert report == Report(digest_of(payload), Refusal(told.reason), 0, 0)
        assert list(device.ledger.history()) == before
        assert device.ledger.stored(digest_of(payload)) is None
        assert "\n" not in told.message
        return told


@pytest.fixture
def setup() -> DeviceSetup:
    return DeviceSetup()


@pytest.fixture(scope="session")
def benches() -> type[DeviceSetup]:
    """For tests that need a new one for each example."""
    return DeviceSetup


@pytest.fixture(scope="session")
def chosen_coins() -> type[ChosenCoins]:
    return ChosenCoins
