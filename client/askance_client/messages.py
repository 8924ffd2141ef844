"""Values that pass between an aggregator and a device (no protobuf, no gRPC).

`codec` turns these into bytes and back. Digests are SHA-256 of the bytes that travelled.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from fractions import Fraction
from typing import NamedTuple

from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import Query, QueryKind, Schema
from askance_client.randomizers import Randomizer

MAX_WAVES = 16
MAX_EVERY_DAYS = 3_660  # ten years
MAX_EPOCHS = 1_024

DEFAULT_ANSWERS = 4_096  # of a study that signs no number: at the least loss they cost 4 nats


class Reason(IntEnum):
    """Reason for a device's refusal. The numbers are the wire's."""

    MALFORMED = 1
    UNKNOWN_STUDY = 2
    UNTRUSTED_KEY = 3
    BAD_SIGNATURE = 4
    EXPIRED = 5
    SCHEMA_MISMATCH = 6
    FIELD_NOT_ALLOWED = 7
    INVALID_QUERY = 8
    INVALID_RANDOMIZER = 9
    LEVELS_MISMATCH = 10
    OVER_STUDY_BUDGET = 11
    OVER_DAY_BUDGET = 12
    OVER_LIFE_BUDGET = 13
    CLOCK_MOVED_BACK = 14
    WRONG_EPOCH = 15
    REFRESH_TOO_EARLY = 16
    OVER_WINDOW_BUDGET = 17
    NOT_APPROVED = 18
    WAITING = 19  # stays on the device: no report leaves while the owner has not decided


class AckStatus(IntEnum):
    """Status of a delivered report. The numbers are the wire's."""

    ACCEPTED = 1
    DUPLICATE = 2
    CONFLICT = 3
    LATE = 4
    UNKNOWN = 5
    MALFORMED = 6


@dataclass(frozen=True, slots=True)
class Refusal:
    """A device's ordinary 'no': a function of the history of requests, never of the record.

    Args:
      reason: all that leaves the device.
      message: one line for the owner's log, with limits, days and names; '' in a refusal that came
        over the wire.
    """

    reason: Reason
    message: str = ""


@dataclass(frozen=True, slots=True)
class SignedStudy:
    """A study's bytes and the analyst's Ed25519 signature over them."""

    study: bytes
    public_key: bytes
    signature: bytes


@dataclass(frozen=True, slots=True)
class Conduct:
    """Conduct of a study by the aggregator; a device passes it on unread, as signed.

    Args:
      beta: the chance, over all answers, that one is off by its tolerance or more.
      confidence: of intervals, jointly over a round; of a repeated study: over all epochs.
      round_deadline_s: a round closes so long after it opened; 0: when all have answered.
      least_answers: in every group of a round; fewer end the study.
      waves: in how many parts, fixed in advance, a round's users are asked; it ends when a part is
        enough. 1: all at once.
    """

    beta: Fraction = Fraction(1, 100)
    confidence: Fraction = Fraction(95, 100)
    round_deadline_s: int = 0
    least_answers: int = 0
    waves: int = 1

    def __post_init__(self) -> None:
        for name in ("beta", "confidence"):
            value = value_text(getattr(self, name))
            if not 0 < getattr(self, name) < 1:
                raise InvalidParameter(f"{name}: expected a number between 0 and 1, got {value}")
        if not 0 <= self.round_deadline_s < 1 << 32:
            raise InvalidParameter(
                f"round deadline: expected 0 or more seconds, found {self.round_deadline_s}"
            )
        if not 0 <= self.least_answers < 1 << 63:
            raise InvalidParameter(f"least answers: expected 0 or more, found {self.least_answers}")
        if not 1 <= self.waves <= MAX_WAVES:
            raise InvalidParameter(f"waves: expected 1 to {MAX_WAVES}, found {self.waves}")


@dataclass(frozen=True, slots=True)
class Repeat:
    """Epochs of a study; each is a collection of its own.

    Args:
      every_days: days of an epoch, 1 or more.
      epochs: their number, 1 or more.
      first: index of the first, 1 or more. The index of a day since 1970, UTC, is
        day // every_days, for every study of this `every_days`.
    """

    every_days: int
    epochs: int
    first: int

    def __post_init__(self) -> None:
        for name, value, most in (
            ("every", self.every_days, MAX_EVERY_DAYS),
            ("epochs", self.epochs, MAX_EPOCHS),
            ("first epoch", self.first, 1 << 31),
        ):
            if not 1 <= value <= most:
                raise InvalidParameter(f"repeat: expected {name} of 1 to {most}, got {value}")

    @property
    def indices(self) -> range:
        """Indices of the study's epochs."""
        return range(self.first, self.first + self.epochs)

    def index(self, day: int) -> int:
        """Return the index of a day."""
        return day // self.every_days


@dataclass(frozen=True, slots=True)
class StudyTerms:
    """The terms that an analyst signs and a device holds the aggregator to.

    Args:
      fields: names of the schema's fields that the study's queries may use; sorted, none twice.
        A request that uses any other field is refused.
      distribution: "name==version" of the installed distribution that has the learner; empty for
        a built-in learner.
      repeat: the study's epochs; None: it collects once. The budget holds per epoch.
      most_answers: of a device, all rounds and epochs together; 1 or more.
    """

    nonce: bytes
    learner: str
    learner_version: int
    parameters: tuple[tuple[str, str], ...]
    schema: Schema
    budget_nano_nats: int
    expires_unix_s: int
    purpose: str
    conduct: Conduct = field(default_factory=Conduct)
    fields: tuple[str, ...] = field(kw_only=True)
    distribution: str = field(default="", kw_only=True)
    repeat: Repeat | None = field(default=None, kw_only=True)
    most_answers: int = field(default=DEFAULT_ANSWERS, kw_only=True)


@dataclass(frozen=True, slots=True)
class Request:
    """Question to one device: the query to evaluate and the randomizer of its answer.

    `epoch` is the index of the epoch; 0: the study collects once. `coins` is the number of 64-bit
    coins that an answer takes, whatever the record.
    """

    study_digest: bytes
    round: int
    group: int
    query: Query
    randomizer: Randomizer
    epoch: int = 0
    coins: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        coins = self.randomizer.coins + rounding_coins(self.query, self.randomizer)
        object.__setattr__(self, "coins", coins)


def rounding_coins(query: Query, randomizer: Randomizer) -> int:
    """Return the number of an answer's coins, the last ones, that round.

    A real value is rounded at random onto the randomizer's levels by a coin of its own, a vector
    by as many as the randomizer says (`Randomizer.vector_level`).
    """
    if query.kind is QueryKind.VECTOR:
        return randomizer.vector_coins
    return 1 if query.kind is QueryKind.REAL else 0


class Report(NamedTuple):
    """A device's answer to one request.

    `outcome` is the randomized symbol's bytes or a refusal; `charged_nano_nats` what this answer
    cost and `spent_nano_nats` what the study has cost the device so far (of a repeated study: its
    epoch). `sequence` is the number
    of this charged answer in the device's ledger, from 1; 0 for a refusal or a reused answer.
    """

    request_digest: bytes
    outcome: bytes | Refusal
    charged_nano_nats: int
    spent_nano_nats: int
    sequence: int = 0
