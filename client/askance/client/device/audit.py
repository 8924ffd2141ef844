"""Whether what a ledger's file holds is what a device would have written under a policy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from askance.client.codec import decode_report
from askance.client.device.policy import Policy
from askance.client.errors import AskanceError
from askance.client.ledger import MAX_ANSWERS, Answer


@dataclass(slots=True)
class _Sums:
    """One member's charges so far, added up anew."""

    life: int = 0
    answers: int = 0
    days: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    studies: dict[bytes, int] = field(default_factory=lambda: defaultdict(int))
    frozen: dict[bytes, bytes] = field(default_factory=dict)


class Audit:
    """Goes over all answers of a file, oldest first, each member's for itself.

    What it cannot see: which table was asked for a charge, since a ledger keeps its digest only.

    Args:
      policy: the budgets that the sums are held against.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._members: dict[str, _Sums] = defaultdict(_Sums)

    def take(self, answer: Answer) -> Iterator[str]:
        """Adds the next answer up and says what is wrong with it, a line each."""
        sums, charge = self._members[answer.member], answer.charge
        sums.answers += 1
        sums.life += charge.nano_nats
        sums.days[charge.day] += charge.nano_nats
        sums.studies[charge.study_digest] += charge.nano_nats
        if charge.question in sums.frozen and charge.nano_nats:
            yield "expected a question that was answered before to cost nothing"
        if sums.frozen.setdefault(charge.question, charge.symbol) != charge.symbol:
            yield "expected a question that was answered before to be answered alike"
        if sums.answers > MAX_ANSWERS:
            yield f"expected at most {MAX_ANSWERS} answers in all"
        if charge.nano_nats:
            yield from self._over(answer, sums)
        yield from _report(answer, sums)

    def _over(self, answer: Answer, sums: _Sums) -> Iterator[str]:
        policy = self._policy
        for what, spent, allowed in (
            ("life", sums.life, policy.life_nano_nats),
            ("day", sums.days[answer.charge.day], policy.day_nano_nats),
            ("study", sums.studies[answer.charge.study_digest], policy.study_nano_nats),
        ):
            if allowed is not None and spent > allowed:
                yield f"expected at most {allowed} nano-nats a {what}, found {spent}"


def _report(answer: Answer, sums: _Sums) -> Iterator[str]:
    """What is wrong with the bytes that left."""
    charge = answer.charge
    try:
        report = decode_report(answer.report)
    except AskanceError as error:
        yield f"expected a report: {error}"
        return
    if report.request_digest != charge.request_digest:
        yield "expected a report on this request, found one on another"
    if report.outcome != charge.symbol:
        yield "expected the report to carry the symbol that was charged"
    if report.charged_nano_nats != charge.nano_nats:
        yield (
            f"expected a report of {charge.nano_nats} nano-nats charged,"
            f" found {report.charged_nano_nats}"
        )
    spent = sums.studies[charge.study_digest]
    if report.spent_nano_nats != spent:
        yield (
            f"expected a report of {spent} nano-nats spent by the study,"
            f" found {report.spent_nano_nats}"
        )
