"""Oracle that checks answers against those that any valid oracle could give."""

from __future__ import annotations

from fractions import Fraction

from askance_aggregator.learners import Answer, Answers, Batch, Question, check_answers
from askance_aggregator.oracles.oracle import Oracle, finite_values, schema_of
from askance_client.errors import InvalidAnswer
from askance_client.queries import QueryKind

Ends = tuple[tuple[Fraction, Fraction], ...]


class CheckedOracle:
    """Oracle that passes answers on, unless no distribution has all of them within tau.

    A value lies within tau of something possible, the shares of a category have a sum that is
    within (their number) tau of 1, the magnitudes of signed values a sum below 1 + (their number)
    tau; and two answers to one query allow a truth that is within the tolerances of both.
    Where a tolerance is open, only what is not a number is refused.

    Utility: whatever an oracle with the promise says passes; a learner that runs on this oracle
    either has answers that one distribution a query could have given, or fails with an error that
    names the round and the question.

    Example:
        >>> schema = ask.Schema("people", age=ask.Integer(0, 120))
        >>> oracle = ask.CheckedOracle(ask.ExactOracle(schema, {"age": [20, 40, 60, 80]}))
        >>> question = ask.Question(ask.predicate(schema.age > 50), tau="0.1")
        >>> oracle.answer(ask.Batch([question]))[0].value
        0.5
    """

    def __init__(self, oracle: Oracle) -> None:
        self.schema = schema_of(oracle)
        self._oracle = oracle
        self._round = -1
        self._left: dict[bytes, tuple[str, Ends]] = {}  # where each query's truth may still lie

    def answer(self, batch: Batch) -> Answers:
        """The oracle's answers.

        Raises:
            InvalidAnswer: one is outside the promise; the error says which.
        """
        self._round += 1
        answers = check_answers(batch, self._oracle.answer(batch))
        for place, (question, answer) in enumerate(zip(batch.questions, answers, strict=True)):
            self._check(f"round {self._round + 1}, question {place + 1}", question, answer)
        return answers

    def _check(self, where: str, question: Question, answer: Answer) -> None:
        values = finite_values(where, answer)
        tau = question.tau
        if tau is None:
            return
        low, high = question.bounds
        for index, value in enumerate(values):
            if not low - tau < value < high + tau:
                raise InvalidAnswer(
                    f"{where}: expected value {index} within {float(tau):g} of"
                    f" {float(low):g} .. {float(high):g}, found {float(value):g}"
                )
        self._check_sum(where, question, tau, values)
        self._check_again(where, question, tau, values)

    def _check_sum(
        self, where: str, question: Question, tau: Fraction, values: list[Fraction]
    ) -> None:
        slack = tau * len(values)
        total = sum(values, Fraction())
        if question.query.kind is QueryKind.CATEGORY and not abs(total - 1) < slack:
            raise InvalidAnswer(
                f"{where}: expected shares with a sum within {float(slack):g} of 1,"
                f" found {float(total):g}"
            )
        size = sum(map(abs, values), Fraction())
        if question.query.kind is QueryKind.SIGNED and not size < 1 + slack:
            raise InvalidAnswer(
                f"{where}: expected signed values with magnitudes of sum below"
                f" {float(1 + slack):g}, found {float(size):g}"
            )

    def _check_again(
        self, where: str, question: Question, tau: Fraction, values: list[Fraction]
    ) -> None:
        """Intersect where the truth may lie with what earlier answers to the query left."""
        query, (low, high) = question.query.canonical, question.bounds
        earlier, ends = self._left.get(query, (where, ((low - tau, high + tau),) * len(values)))
        kept = tuple(
            (max(least, value - tau), min(most, value + tau))
            for (least, most), value in zip(ends, values, strict=True)
        )
        for index, (least, most) in enumerate(kept):
            if not least < most:
                raise InvalidAnswer(
                    f"{where}: expected value {index} to agree with {earlier}, which asked the"
                    f" same, found it off by more than both tolerances"
                )
        self._left[query] = (where, kept)
