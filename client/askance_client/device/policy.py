"""Policy of a device's owner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from askance_client.device.examination import ExaminedStudy
from askance_client.errors import InvalidParameter
from askance_client.ledger import SECONDS_PER_DAY, Limits, Span
from askance_client.messages import DEFAULT_ANSWERS, Reason, Refusal, Repeat, StudyTerms

# Weight of answers (`ExaminedRequest.weight`) that a slow machine's processor does per second; a
# server does 3,000,000 to 6,300,000.
WEIGHT_PER_S = 256_000
STUDY_SECONDS = 600  # of such a processor, per study and day

# (study, a request's payload, the time in Unix seconds) -> None if the study may be answered. A
# refusal for `Reason.WAITING` holds the request: no report leaves for it. It is a function of the
# study, the clock and the owner's decisions; nothing that it is given depends on a record.
Consent = Callable[[ExaminedStudy, bytes, int], Refusal | None]


@dataclass(frozen=True, slots=True)
class Policy:
    """Permissions of a device's owner: analysts, questions and spending.

    Args:
      analysts: the Ed25519 public keys (32 bytes each) whose studies are answered.
      life_nano_nats: the most that all studies together may ever cost.
      day_nano_nats: the most that one UTC day may cost; None for no limit but the life's.
      study_nano_nats: the most that one study may cost, whatever it asks for; None likewise.
      fields: the fields that may be asked about; None for all of the schema.
      refresh_days: the shortest epoch, in days, of studies that collect again; None: none may.
      window_nano_nats: the most that `window_days` days in a row may cost; None likewise.
      window_days: 1 or more.
      study_answers: the most answers to one study, ever; 1 or more.
      study_work: the most weight of a study's answers on one UTC day; 1 or more.
      consent: the owner's decisions on studies; None to answer all that the analysts sign.
    """

    analysts: frozenset[bytes]
    life_nano_nats: int
    day_nano_nats: int | None = None
    study_nano_nats: int | None = None
    fields: frozenset[str] | None = None
    refresh_days: int | None = None
    window_nano_nats: int | None = None
    window_days: int = 30
    study_answers: int = DEFAULT_ANSWERS
    study_work: int = STUDY_SECONDS * WEIGHT_PER_S
    consent: Consent | None = None

    def __post_init__(self) -> None:
        for key in self.analysts:
            if len(key) != 32:
                raise InvalidParameter(
                    f"policy: expected analysts' keys of 32 bytes, found {len(key)}"
                )
        budgets = (
            self.life_nano_nats,
            self.day_nano_nats,
            self.study_nano_nats,
            self.window_nano_nats,
        )
        if any(budget is not None and budget < 0 for budget in budgets):
            raise InvalidParameter("policy: expected budgets of 0 nano-nats or more")
        least = min(self.window_days, self.study_answers, self.study_work)
        if least < 1 or (self.refresh_days is not None and self.refresh_days < 1):
            raise InvalidParameter("policy: expected days, answers and work of 1 or more")

    def limits(self, terms: StudyTerms, day: int = 0) -> Limits:
        """The limits for one study: the owner's and the study's own promise, whichever is less.

        Args:
          terms: of the study. Its promise holds per epoch; the owner's limit over all of them.
          day: of the charge, since 1970.
        """
        life = self.life_nano_nats
        study = life if self.study_nano_nats is None else self.study_nano_nats
        window = epoch = None
        if self.window_nano_nats is not None:
            from_s = (day - self.window_days + 1) * SECONDS_PER_DAY
            window = Span(from_s, self.window_nano_nats)
        if (repeat := terms.repeat) is not None:
            from_s = repeat.index(day) * repeat.every_days * SECONDS_PER_DAY
            epoch = Span(from_s, terms.budget_nano_nats)
        promise = terms.budget_nano_nats * (1 if repeat is None else repeat.epochs)
        day_nano_nats = life if self.day_nano_nats is None else self.day_nano_nats
        answers = min(self.study_answers, terms.most_answers)
        return Limits(
            min(study, promise), day_nano_nats, life, window, epoch, answers, self.study_work
        )

    def too_early(self, repeat: Repeat | None) -> Refusal | None:
        """A refusal when a study would refresh answers more often than the owner allows."""
        refresh = self.refresh_days
        if repeat is None or (refresh is not None and refresh <= repeat.every_days):
            return None
        least = "no refresh" if refresh is None else f"{refresh} days or more"
        return Refusal(
            Reason.REFRESH_TOO_EARLY, f"expected {least}, got epochs of {repeat.every_days} days"
        )

    def objection(self, asked: frozenset[str]) -> Refusal | None:
        """A refusal when a query asks about fields that the owner keeps out of it."""
        if self.fields is None or asked <= self.fields:
            return None
        field = min(asked - self.fields)
        return Refusal(
            Reason.FIELD_NOT_ALLOWED, f"expected fields that may be asked, found {field!r}"
        )
