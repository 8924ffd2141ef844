"""Adversaries: answers within tau of the truth, always, and as unhelpful as that allows.

A learner that is promised tau has to come to its conclusion under each of them. They wrap an oracle
that knows the truth (`ExactOracle`), and compare floats as the exact fractions that they are; a
2^-40 of tau is left for the rounding of the truth itself, so an answer is off by *less* than tau.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import nextafter

from askance_aggregator.learners import Answer, Answers, Batch, Question
from askance_aggregator.oracles.oracle import Oracle, schema_of
from askance_aggregator.sampling import Words
from askance_client.queries import QueryKind

_NEARLY = 1 - Fraction(1, 1 << 40)  # the part of tau that an answer is moved by

Thresholds = Callable[[Question], Sequence[float]]
"""For each value of a question's answer the number that a learner compares it with."""


class Adversary(ABC):
    """A valid oracle that would rather say something else than the truth.

    Utility: an answer is within tau of the truth, strictly, so every statement that holds for all
    valid oracles holds for it. An open tolerance is 1/20 of the range.

    Args:
        truth: answers exactly.
    """

    def __init__(self, truth: Oracle) -> None:
        self.schema = schema_of(truth)
        self._truth = truth

    def answer(self, batch: Batch) -> Answers:
        """The least helpful valid answers, each with the interval of one point."""
        truths = self._truth.answer(batch)
        return tuple(
            Answer(values, values, values, present=truth.present)
            for values, truth in zip(self.wished(batch, truths), truths, strict=True)
        )

    @abstractmethod
    def wished(self, batch: Batch, truths: Answers) -> list[tuple[float, ...]]:
        """Choose the answer to each question."""


class LazyOracle(Adversary):
    """Says the same whatever the truth, wherever that is valid, and the truth elsewhere.

    Utility: a learner gains nothing from a value that the truth moves by less than tau. For
    MASKED-PARITY the default is the world in which the labels of the half with b = 0 are fair
    coins: the answer is C_g + <h_g1, f>, and <h_g0, f> is omitted where it is less than tau. (The
    oracle as printed, which omits <h_g, f> as a whole or not at all, gives the half with b = 0 away
    where the other half alone passes tau.)

    Args:
        default: answers without knowing what is to be learned: another distribution (say, of rows
            with labels that mean nothing), or `CentreOracle`.

    Source: KLNRS08, proof of Theorem 5.1; deviation: see above.

    Example:
        >>> schema = ask.Schema("people", age=ask.Integer(0, 120))
        >>> truth = ask.ExactOracle(schema, {"age": [20, 40, 60, 80]})
        >>> question = ask.Question(ask.predicate(schema.age > 70), tau="0.3")
        >>> ask.LazyOracle(truth, ask.CentreOracle()).answer(ask.Batch([question]))[0].value
        0.5
    """

    def __init__(self, truth: Oracle, default: Oracle) -> None:
        super().__init__(truth)
        self._default = default

    def wished(self, batch: Batch, truths: Answers) -> list[tuple[float, ...]]:
        """The default's values where they are valid."""
        defaults = self._default.answer(batch)
        return [
            tuple(
                said if _within(said, true, question.working_tau) else true
                for said, true in zip(default.values, truth.values, strict=True)
            )
            for question, default, truth in zip(batch.questions, defaults, truths, strict=True)
        ]


class WrongSideOracle(Adversary):
    """Adversary that moves every value toward a threshold, and past it where tau allows.

    Utility: a value at or below its threshold is raised by almost tau, any other is lowered by as
    much. A comparison with that threshold distinguishes two cases only if the two
    truths are 2 tau apart or more, one on each side.

    Args:
        thresholds: by default `usual_thresholds`.

    Example:
        >>> schema = ask.Schema("people", age=ask.Integer(0, 120))
        >>> truth = ask.ExactOracle(schema, {"age": [20, 40, 60, 80]})
        >>> question = ask.Question(ask.predicate(schema.age > 50), tau="0.1")
        >>> (answer,) = ask.WrongSideOracle(truth).answer(ask.Batch([question]))
        >>> abs(answer.value - 0.5) < 0.1
        True
    """

    def __init__(self, truth: Oracle, thresholds: Thresholds | None = None) -> None:
        super().__init__(truth)
        self._thresholds = usual_thresholds if thresholds is None else thresholds

    def wished(self, batch: Batch, truths: Answers) -> list[tuple[float, ...]]:
        """Move each value to the other side, or as near to it as is valid."""
        return [
            tuple(
                moved(true, question.working_tau, 1 if true <= threshold else -1)
                for true, threshold in zip(truth.values, self._thresholds(question), strict=True)
            )
            for question, truth in zip(batch.questions, truths, strict=True)
        ]


class RandomSignOracle(Adversary):
    """Moves every value up or down by almost tau, by a fair coin each.

    Utility: errors of many answers neither cancel nor agree, as an honest sample's would; who adds
    answers up has to bear sums of errors of tau each.

    Args:
        words: the coins; asked twice, a question has other answers.

    Example:
        >>> schema = ask.Schema("people", age=ask.Integer(0, 120))
        >>> truth = ask.ExactOracle(schema, {"age": [20, 40, 60, 80]})
        >>> question = ask.Question(ask.predicate(schema.age > 50), tau="0.1")
        >>> oracle = ask.RandomSignOracle(truth, ask.SystemWords())
        >>> (answer,) = oracle.answer(ask.Batch([question]))
        >>> 0.39 < abs(answer.value - 0.5) + 0.3 < 0.4
        True
    """

    def __init__(self, truth: Oracle, words: Words) -> None:
        super().__init__(truth)
        self._words = words

    def wished(self, batch: Batch, truths: Answers) -> list[tuple[float, ...]]:
        """The truth, off by almost tau."""
        return [
            tuple(
                moved(true, question.working_tau, 1 if int(coin) & 1 else -1)
                for true, coin in zip(
                    truth.values, self._words.take(len(truth.values)), strict=True
                )
            )
            for question, truth in zip(batch.questions, truths, strict=True)
        ]


class CentreOracle:
    """Knows nothing: the middle of the range, the even share of a cell, no sign.

    Valid for no distribution in particular; a `LazyOracle`'s default.

    Example:
        >>> schema = ask.Schema("people", age=ask.Integer(0, 120))
        >>> question = ask.Question(ask.predicate(schema.age > 40), tau="0.1")
        >>> ask.CentreOracle().answer(ask.Batch([question]))[0].value
        0.5
    """

    def answer(self, batch: Batch) -> Answers:
        """The same for every distribution."""
        answers = []
        for question in batch.questions:
            low, high = question.bounds
            middle = (low + high) / 2
            if question.query.kind is QueryKind.CATEGORY:
                middle = Fraction(1, question.values)
            values = (float(middle),) * question.values
            answers.append(Answer(values, values, values))
        return tuple(answers)


def usual_thresholds(question: Question) -> tuple[float, ...]:
    """Return the usual threshold of a gap that begins at zero: tau for shares, 0 for signed values.

    For a number, which begins nowhere, the middle of its range.
    """
    low, high = question.bounds
    if question.query.kind in (QueryKind.REAL, QueryKind.VECTOR):
        threshold = (low + high) / 2
    else:
        threshold = Fraction(0) if low < 0 else question.working_tau
    return (float(threshold),) * question.values


def moved(true: float, tau: Fraction, sign: int) -> float:
    """A value moved by almost tau in a direction: the farthest float that is surely valid."""
    said = float(Fraction(true) + sign * tau * _NEARLY)
    while not _within(said, true, tau):
        said = nextafter(said, true)
    return said


def _within(said: float, true: float, tau: Fraction) -> bool:
    """Return whether an answer is valid; tolerances are open and the truth is a rounded float."""
    return abs(Fraction(said) - Fraction(true)) <= tau * _NEARLY
