"""Parts of a batch: what one group of users is asked, and how many users that takes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from askance_aggregator.estimation import Decode
from askance_aggregator.learners import Question
from askance_aggregator.planning.choices import Choice, choices
from askance_aggregator.planning.precision import Design, RoundRules, n_variance, tail_of
from askance_client.accounting import LEAST_LOSS, format_nats
from askance_client.errors import PlanRefused
from askance_client.randomizers import Randomizer


@dataclass(frozen=True, slots=True)
class Part:
    """A question, or one block of a vector's components: what one group is asked.

    Args:
        need: users; for an open tolerance those for 1/20 of its range.
        decode: what the randomizer's reports are decoded by, where that was designed with it.
        limit: n x variance that no other randomizer is below, where that is known (`Choice`).
    """

    question: Question
    randomizer: Randomizer
    need: int
    decode: Decode | None = None
    limit: float | None = None

    def enough(self, users: int, beta: float) -> bool:
        """Return whether `users` keep its tolerance, or the stand-in of an open one."""
        tail = tail_of(self.question, self.randomizer, self.decode)
        return tail.enough(users, float(self.question.working_tau), beta)

    def at_least(self, least_answers: int, beta: float) -> Part:
        """Return this part with no fewer users than these, and enough of them for its tolerance.

        A few more users than an exact size need not be enough (`Tail`).
        """
        users = max(self.need, least_answers)
        while users > self.need and not self.enough(users, beta):
            users += 1
        return replace(self, need=users)

    @property
    def n_variance(self) -> Fraction:
        """Return n times the variance of a value, n the users of this part."""
        return n_variance(self.question, self.randomizer, self.decode)


def need(question: Question, choice: Choice, beta: float) -> int:
    """Users for one question: its tolerance, or the stand-in for an open one."""
    tail = tail_of(question, choice.randomizer, choice.decode)
    return tail.users(float(question.working_tau), beta)


def part_of(question: Question, nano_nats: int, beta: float, design: Design) -> Part:
    """Choose the randomizer that takes the fewest users; the first of equals."""
    _check_loss(nano_nats)
    offered = choices(question, nano_nats, design)
    _check_loss(max(choice.randomizer.loss.nano_nats for choice in offered))
    parts = [
        Part(question, choice.randomizer, need(question, choice, beta), choice.decode, choice.limit)
        for choice in offered
        if choice.randomizer.loss.nano_nats >= LEAST_LOSS
    ]
    return min(parts, key=lambda part: part.need)


def _check_loss(nano_nats: int) -> None:
    """Refuse a question that costs less than devices answer."""
    if nano_nats < LEAST_LOSS:
        raise PlanRefused(
            f"epsilon: expected {format_nats(LEAST_LOSS)} nats or more per question of a user, the"
            f" least loss that devices answer, got {format_nats(nano_nats)}"
        )


class Sizer:
    """Parts of questions by budget, shared by those that differ in their expression only."""

    def __init__(self, questions: Sequence[Question], beta: float, rules: RoundRules) -> None:
        self._questions = questions
        self._beta = beta
        self._rules = rules
        self._known: dict[tuple[Hashable, int], Part] = {}
        self.profiles = tuple(profile(question) for question in questions)

    def part(self, index: int, nano_nats: int) -> Part:
        """Return the part of a whole question that spends so much."""
        return self.of(self._questions[index], nano_nats, self.profiles[index])

    def of(self, question: Question, nano_nats: int, like: Hashable | None = None) -> Part:
        """Return the part of a question, or of a block of one; `like` is its profile, if known."""
        key = (profile(question) if like is None else like, nano_nats)
        if key not in self._known:
            part = part_of(question, nano_nats, self._beta, self._rules.design)
            self._known[key] = part.at_least(self._rules.least_answers, self._beta)
        known = self._known[key]
        return known if known.question is question else replace(known, question=question)


def profile(question: Question) -> Hashable:
    """Return all that a question's randomizer and need depend on: not its expression."""
    query = question.query
    return (
        query.kind,
        question.values,
        question.bounds,
        (query.low, query.high, query.frac),
        (question.tau, question.cell_mass, question.aim, question.present),
        (question.over_present, question.decision, question.length),
    )
