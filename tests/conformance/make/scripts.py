"""Ledger rules as scripts: requests, times and the outcomes that the documents state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator.encoding import encode_request, encode_schema, sign_study
from askance_aggregator.families import (
    hypercube_response,
    k_ary_response,
    random_codebook,
    randomized_response,
    subset_selection,
)
from askance_aggregator.queries import category, first, predicate, real, signed, vector
from askance_client.codec import decode_request, digest_of
from askance_client.errors import AskanceError
from askance_client.messages import Request, SignedStudy, StudyTerms
from askance_client.queries import Query, Schema
from askance_client.randomizers import Channel, KaryResponse, Randomizer
from askance_protos.v1 import exchange_pb2
from tests.conformance.make.from_vectors import Json, case
from tests.vectors.good_cases import KEY, ONE, RECORDS, SCHEMA, signed_bytes, terms

DAY, HOUR = 86_400, 3_600
T = 19_000 * DAY + 10 * HOUR  # ten o'clock of a day
OTHER_KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
LIFE = 100 * ONE
HALF = ONE // 2
BIT = predicate(SCHEMA.smoker)
NOT = predicate(~SCHEMA.smoker)
AGED = predicate(SCHEMA.age > 40)
COLOUR = category(SCHEMA.colour)
HEIGHT = real(SCHEMA.height)
PAIR = vector([SCHEMA.smoker, SCHEMA.height], 0, 2)
SIGN = signed(first([SCHEMA.smoker, SCHEMA.ill == "no"]))


def study(number: int = 0, key: Ed25519PrivateKey = KEY, **changes: Any) -> SignedStudy:
    """Sign a study; its number makes it another one."""
    terms_of: StudyTerms = replace(
        terms(), nonce=bytes([number]) * 16, budget_nano_nats=LIFE, expires_unix_s=T + 10 * DAY
    )
    return sign_study(replace(terms_of, **changes), key)


S0, S1, S2 = study(0), study(1), study(2)


def request(
    of: SignedStudy = S0,
    query: Query = BIT,
    randomizer: Randomizer | None = None,
    epsilon: int = ONE,
    round: int = 0,
    group: int = 0,
) -> bytes:
    """Encode a request; by default a bit by randomized response."""
    chosen = randomized_response(epsilon) if randomizer is None else randomizer
    return encode_request(Request(digest_of(of.study), round, group, query, chosen))


class Script:
    """A case in the making: steps, and the words that are expected of them."""

    def __init__(
        self, name: str, record: Any = None, schema: Schema = SCHEMA, **policy: Any
    ) -> None:
        self.name, self.expected = name, list[Any]()
        owner = {"analysts": [KEY], "life": LIFE, "day": None, "study": None, "fields": None}
        self._given: Json = {
            "schema": encode_schema(schema).SerializeToString(deterministic=True).hex(),
            "record": RECORDS[0] if record is None else record,
            "policy": _policy({**owner, **policy}),
            "steps": [],
        }
        self._random = Random(name)

    def introduce(self, signed: SignedStudy, refused: str = "") -> Script:
        """Let the device meet a study."""
        return self._step({"refused": refused}, do="introduce", study=signed_bytes(signed).hex())

    def ask(self, at_s: int, *asked: tuple[bytes, str]) -> Script:
        """Ask the requests of one message, each with its expected word."""
        return self._step(
            [word for _, word in asked],
            do="ask",
            at_s=str(at_s),
            requests=[payload.hex() for payload, _ in asked],
            coins=[self._coins(payload) for payload, _ in asked],
        )

    def restart(self) -> Script:
        """Stop the device and start it again with its ledger."""
        return self._step({}, do="restart")

    def sequence(self, number: int) -> Script:
        """Read the ledger's highest sequence number."""
        return self._step({"sequence": number}, do="sequence")

    def case(self) -> Json:
        """Return the case, without its answer."""
        return case("ledger", self.name, **self._given)

    def _step(self, expected: Any, **step: Any) -> Script:
        self.expected.append(expected)
        self._given["steps"].append(step)
        return self

    def _coins(self, payload: bytes) -> list[str]:
        return [str(self._random.getrandbits(64)) for _ in range(coins_of(payload))]


def coins_of(payload: bytes) -> int:
    """Number of coins of a request that these scripts make; 0 of what is refused anyway."""
    try:
        return decode_request(payload, SCHEMA).coins
    except AskanceError:
        return 0


def _policy(owner: Json) -> Json:
    keys = [key.public_key().public_bytes_raw().hex() for key in owner["analysts"]]
    limits = {n: None if owner[n] is None else str(owner[n]) for n in ("life", "day", "study")}
    return {"analysts": keys, **limits, "fields": owner["fields"]}


def _reuse() -> Iterator[Script]:
    a, again, late = request(), request(round=1), request(group=3)
    yield (
        Script("a question is charged once and its report is resent")
        .introduce(S0)
        .sequence(0)
        .ask(T, (a, "charged"))
        .ask(T + 5, (a, "resent"))
        .ask(T + DAY, (a, "resent"))
        .sequence(1)
    )
    yield (
        Script("an answered question is reused in another round, group and study")
        .introduce(S0)
        .introduce(S1)
        .ask(T, (a, "charged"), (again, "reused"))
        .ask(T, (late, "reused"), (request(S1), "reused"))
        .ask(T, (again, "reused"))
        .sequence(1)
    )
    yield (
        Script("another randomizer or query is another question")
        .introduce(S0)
        .ask(T, (a, "charged"), (request(epsilon=HALF), "charged"), (request(query=NOT), "charged"))
        .sequence(3)
    )
    yield (
        Script("an equal payload in one message is answered once")
        .introduce(S0)
        .ask(T, (a, "charged"), (a, "charged"))
        .sequence(1)
    )
    yield (
        Script("a reused answer needs no budget", life=ONE)
        .introduce(S0)
        .ask(T, (a, "charged"))
        .ask(T, (request(query=NOT), "OVER_LIFE_BUDGET"), (again, "reused"))
    )


def _budgets() -> Iterator[Script]:
    a, b, c = request(), request(query=NOT), request(query=AGED)
    small = request(query=AGED, epsilon=HALF)
    yield (
        Script("a life budget is spent to the last nano-nat", life=2 * ONE)
        .introduce(S0)
        .ask(T, (a, "charged"), (b, "charged"), (c, "OVER_LIFE_BUDGET"))
        .ask(T + 5 * DAY, (c, "OVER_LIFE_BUDGET"))
    )
    yield (
        Script("a nano-nat too little refuses", life=2 * ONE - 1)
        .introduce(S0)
        .ask(T, (a, "charged"), (b, "OVER_LIFE_BUDGET"))
    )
    yield (
        Script("a refused request leaves the budget to a cheaper one", life=ONE + HALF)
        .introduce(S0)
        .ask(T, (a, "charged"), (b, "OVER_LIFE_BUDGET"), (small, "charged"))
    )
    midnight = T - 10 * HOUR + DAY
    yield (
        Script("a day's budget returns at midnight, UTC", day=ONE)
        .introduce(S0)
        .ask(T, (a, "charged"))
        .ask(midnight - 1, (b, "OVER_DAY_BUDGET"))
        .ask(midnight, (b, "charged"), (c, "OVER_DAY_BUDGET"))
        .ask(midnight + DAY, (c, "charged"))
    )
    yield (
        Script("what a study promised bounds it")
        .introduce(promised := study(7, budget_nano_nats=ONE + HALF))
        .introduce(S1)
        .ask(T, (request(promised), "charged"), (request(promised, NOT), "OVER_STUDY_BUDGET"))
        .ask(T, (request(S1, NOT), "charged"))
        .ask(T, (request(promised, AGED, epsilon=HALF), "charged"))
    )
    yield (
        Script("the owner's limit per study bounds every study", study=ONE)
        .introduce(S0)
        .introduce(S1)
        .ask(T, (a, "charged"), (b, "OVER_STUDY_BUDGET"), (request(S1, NOT), "charged"))
    )
    yield (
        Script("the widest limit is named", life=2 * ONE, day=ONE, study=HALF)
        .introduce(S0)
        .ask(T, (small, "charged"))
        .ask(T, (request(epsilon=HALF), "OVER_STUDY_BUDGET"))
        .ask(T, (a, "OVER_DAY_BUDGET"))
        .ask(T, (request(epsilon=2 * ONE), "OVER_LIFE_BUDGET"))
    )
    yield (
        Script("spent counts the study, sequence counts the device")
        .introduce(S0)
        .introduce(S1)
        .ask(T, (a, "charged"), (request(S1, NOT), "charged"), (c, "charged"))
        .sequence(3)
    )


def _time() -> Iterator[Script]:
    a, b, c = request(), request(query=NOT), request(query=AGED)
    yield (
        Script("a clock a minute behind stands still, more is refused")
        .introduce(S0)
        .ask(T, (a, "charged"))
        .ask(T - 60, (b, "charged"))
        .ask(T - 61, (c, "CLOCK_MOVED_BACK"), (a, "resent"))
        .ask(T - 61, (request(round=1), "CLOCK_MOVED_BACK"))
        .ask(T, (c, "charged"))
    )
    start = T - 10 * HOUR
    yield (
        Script("a clock that went back over midnight is refused", day=ONE)
        .introduce(S0)
        .ask(start, (a, "charged"))
        .ask(start - 1, (b, "CLOCK_MOVED_BACK"))
    )
    short = study(9, expires_unix_s=T)
    old, new = request(short), request(short, NOT)
    yield (
        Script("a study expires at its second; stored reports remain")
        .introduce(short)
        .ask(T - 1, (old, "charged"))
        .ask(T, (new, "EXPIRED"), (old, "resent"), (request(short, round=1), "EXPIRED"))
    )
    yield (
        Script("a clock that stands still does not revive a study")
        .introduce(short)
        .introduce(S0)
        .ask(T + 1, (request(query=AGED), "charged"))
        .ask(T - 1, (new, "EXPIRED"))
    )


def _restarts() -> Iterator[Script]:
    a, b = request(), request(query=NOT)
    yield (
        Script("a restart forgets studies and keeps charges", day=ONE)
        .introduce(S0)
        .ask(T, (a, "charged"))
        .restart()
        .sequence(1)
        .ask(T, (a, "resent"), (b, "UNKNOWN_STUDY"))
        .introduce(S0)
        .ask(T, (b, "OVER_DAY_BUDGET"), (request(round=2), "reused"))
        .ask(T - 61, (b, "CLOCK_MOVED_BACK"))
        .restart()
        .introduce(S0)
        .ask(T + DAY, (b, "charged"))
        .sequence(2)
    )


def _refusals() -> Iterator[Script]:
    a = request()
    forged = SignedStudy(S0.study, S0.public_key, S1.signature)
    no_study = sign_study(terms(), KEY)
    other_schema = study(5, schema=Schema("other", 1, **dict(SCHEMA.fields)))
    yield (
        Script("a study is met once it is trusted, signed and of the schema")
        .introduce(study(4, OTHER_KEY), "UNTRUSTED_KEY")
        .introduce(forged, "BAD_SIGNATURE")
        .introduce(other_schema, "SCHEMA_MISMATCH")
        .ask(T, (a, "UNKNOWN_STUDY"), (request(other_schema), "UNKNOWN_STUDY"))
        .introduce(no_study)
        .introduce(S0)
        .ask(T, (a, "charged"))
    )
    narrow = study(6, fields=("age",))
    yield (
        Script(
            "fields are those that the study signs and the owner allows", fields=["age", "smoker"]
        )
        .introduce(narrow)
        .introduce(S0)
        .ask(T, (request(narrow), "FIELD_NOT_ALLOWED"), (request(narrow, AGED), "charged"))
        .ask(T, (request(query=COLOUR, randomizer=k_ary_response(3, ONE)), "FIELD_NOT_ALLOWED"))
        .ask(T, (a, "charged"))
    )
    three = k_ary_response(3, ONE)
    yield (
        Script("levels are the query's values")
        .introduce(S0)
        .ask(T, (request(randomizer=three), "LEVELS_MISMATCH"))
        .ask(T, (request(query=COLOUR), "LEVELS_MISMATCH"))
        .ask(T, (request(query=PAIR), "LEVELS_MISMATCH"))
        .ask(T, (request(query=PAIR, randomizer=hypercube_response(3, ONE)), "LEVELS_MISMATCH"))
        .ask(T, (request(query=HEIGHT, randomizer=hypercube_response(1, ONE)), "LEVELS_MISMATCH"))
        .ask(T, (request(query=HEIGHT, randomizer=three), "charged"))
        .ask(T, (request(query=HEIGHT, randomizer=KaryResponse(1 << 16, 1)), "charged"))
        .ask(T, (request(query=HEIGHT, randomizer=KaryResponse(65_537, 1)), "LEVELS_MISMATCH"))
    )
    even = Channel(((1 << 63, 1 << 63), (1 << 63, 1 << 63)))
    broken = exchange_pb2.Request.FromString(a)
    broken.randomizer.table.entries[0] += 1
    both = exchange_pb2.Request.FromString(broken.SerializeToString(deterministic=True))
    both.query.low = 5
    zero = exchange_pb2.Request.FromString(a)
    zero.randomizer.table.entries[:] = [1 << 63, 1 << 63, 1, (1 << 64) - 1]
    zero.randomizer.table.entries[2:] = [0, 0]
    lost = exchange_pb2.Request.FromString(a)
    lost.ClearField("randomizer")
    made = [m.SerializeToString(deterministic=True) for m in (broken, both, zero, lost)]
    yield (
        Script("a request that is none is refused by the first reason")
        .introduce(S0)
        .ask(T, (b"\xff", "MALFORMED"), (a + bytes.fromhex("e83e01"), "MALFORMED"))
        .ask(T, (b"", "MALFORMED"), (request(randomizer=even), "INVALID_RANDOMIZER"))
        .ask(T, (made[0], "INVALID_RANDOMIZER"), (made[1], "INVALID_QUERY"))
        .ask(T, (made[2], "INVALID_RANDOMIZER"), (made[3], "MALFORMED"))
        .sequence(0)
    )
    many = [(request(S2, round=n), "UNKNOWN_STUDY") for n in range(258)]
    silent = [(payload, word if n < 256 else "silent") for n, (payload, word) in enumerate(many)]
    known = [(request(randomizer=three, round=n), "LEVELS_MISMATCH") for n in range(3)]
    yield (
        Script("past 256 refusals of a study in an hour no report leaves")
        .introduce(S0)
        .ask(T, *silent)
        .ask(T + HOUR - 1, *known, (a, "charged"), (many[0][0], "silent"))
        .ask(T + HOUR, many[0])
    )


def _values() -> Iterator[Script]:
    for number, record in enumerate(RECORDS):
        yield (
            Script(f"every kind of query, record {number}", record)
            .introduce(S0)
            .ask(T, (request(), "charged"))
            .ask(T, (request(query=COLOUR, randomizer=k_ary_response(3, ONE)), "charged"))
            .ask(T, (request(query=COLOUR, randomizer=subset_selection(3, ONE)), "charged"))
            .ask(T, (request(query=SIGN, randomizer=k_ary_response(3, HALF)), "charged"))
            .ask(T, (request(query=HEIGHT), "charged"))
            .ask(T, (request(query=HEIGHT, randomizer=KaryResponse(33, 1 << 57)), "charged"))
            .ask(T, (request(query=PAIR, randomizer=hypercube_response(2, ONE)), "charged"))
            .ask(T, (request(query=PAIR, randomizer=random_codebook(2, 9, ONE)), "charged"))
            .sequence(8)
        )


def _least_losses() -> Iterator[Script]:
    least = 1_000_000
    below, nothing = (request(epsilon=nano) for nano in (least - 1, 1))
    yield (
        Script("a loss below a thousandth of a nat is refused, whatever is left", life=3 * least)
        .introduce(S0)
        .ask(T, (nothing, "INVALID_RANDOMIZER"), (below, "INVALID_RANDOMIZER"))
        .ask(T, (request(epsilon=least), "charged"), (request(epsilon=least + 1), "charged"))
        .ask(T, (request(epsilon=least, round=1), "reused"), (below, "INVALID_RANDOMIZER"))
        .sequence(2)
    )


def _answers() -> Iterator[Script]:
    two = study(10, most_answers=2)
    a, b, c = request(two), request(two, NOT), request(two, AGED)
    yield (
        Script("a study has as many charged answers as it signs")
        .introduce(two)
        .introduce(S0)
        .ask(T, (a, "charged"), (b, "charged"), (c, "OVER_STUDY_BUDGET"))
        .ask(T + DAY, (c, "OVER_STUDY_BUDGET"), (request(two, round=1), "reused"), (b, "resent"))
        .ask(T + DAY, (request(S0, AGED), "charged"), (c, "reused"))
        .restart()
        .introduce(two)
        .ask(T + DAY, (request(two, epsilon=HALF), "OVER_STUDY_BUDGET"))
        .sequence(3)
    )
    yield (
        Script("answers to another study do not count")
        .introduce(two)
        .introduce(S0)
        .ask(T, (request(), "charged"), (request(query=NOT), "charged"))
        .ask(T, (c, "charged"), (request(two, epsilon=HALF), "charged"))
        .ask(T, (request(two, NOT, epsilon=HALF), "OVER_STUDY_BUDGET"))
    )


def scripts() -> Iterator[Script]:
    """Yield every script that is written by hand."""
    for part in (_reuse, _budgets, _time, _restarts, _refusals, _values, _least_losses, _answers):
        yield from part()


def check(script: Script, answers: Sequence[Json]) -> None:
    """Hold a device's answers to the words that a script expects."""
    for number, (expected, answer) in enumerate(zip(script.expected, answers, strict=True)):
        said = [word for word, _ in answer["reports"]] if "reports" in answer else answer
        assert said == expected, (script.name, number, said, expected)


def random_scripts(random: Random, count: int) -> Iterator[Json]:
    """Yield sequences of steps drawn at random from a small pool: ends of days, little budgets."""
    studies = [S0, S1, study(8, budget_nano_nats=ONE, expires_unix_s=T + DAY)]
    pool = [
        request(of, query, epsilon=epsilon, round=round)
        for of in [*studies, S2]
        for query in (BIT, NOT, AGED)
        for epsilon in (ONE, HALF)
        for round in (0, 1)
    ]
    pool += [request(S0, COLOUR, k_ary_response(3, ONE)), request(S0, COLOUR), b"\xff"]
    for number in range(count):
        day, most = (random.choice([None, ONE, 2 * ONE, 3 * HALF]) for _ in range(2))
        life = random.choice([2 * ONE, 5 * HALF, 4 * ONE, LIFE])
        script = Script(f"random {number}", life=life, day=day, study=most)
        for signed_study in random.sample(studies, 2):
            script.introduce(signed_study)
        now_s = T
        for _ in range(random.randint(6, 14)):
            step = random.random()
            if step < 0.08:
                script.restart()
            if step < 0.25:
                script.introduce(random.choice(studies))
            now_s += random.choice([0, 1, -1, -60, -61, HOUR, 14 * HOUR - 1, 14 * HOUR, DAY])
            asked = random.choices(pool, k=random.randint(1, 5))
            script.ask(now_s, *[(payload, "") for payload in asked])
        yield script.sequence(0).case()
