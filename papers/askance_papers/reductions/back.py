"""From devices to queries: local algorithms simulated with statistical queries (Lemmas 4.4, 4.5).

A simulation is a learner: it asks an oracle about the distribution that the users are drawn from,
and its hypothesis has the law of what the local algorithm concludes. What it draws is drawn from
words; the same words and the same answers always lead to the same questions.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import ceil, log
from typing import TypeVar

from askance_aggregator.learners import Adaptive, Answers, Batch, Learning, NonAdaptive, Question
from askance_aggregator.numbers import Rational, rational
from askance_aggregator.sampling import Words, happens
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import Query
from askance_client.randomizers import Randomizer
from askance_papers.reductions.local_algorithms import (
    Interactive,
    LocalAlgorithm,
    LocalCall,
    NonInteractive,
    Spent,
)
from askance_papers.reductions.products import Factor, Product, product_of

T = TypeVar("T")

MAX_TRIES = 100_000  # of one call: an oracle that keeps its promise needs e^eps on average
_WORD = 1 << 64


def by_queries(algorithm: NonInteractive[T], beta: Rational, words: Words) -> NonAdaptive[T]:
    """The simulation of a non-interactive local algorithm by non-adaptive queries.

    To ask everything at once, `candidates` reports are drawn from R(0) for each call beforehand,
    and every one's p(w) is asked for; the first that is accepted counts.

    Utility: T calls become T e^eps ln(2T/beta) queries of tolerance about beta / (2 T (e^(2 eps) -
    1)); with any valid oracle the conclusion's law is within beta in total variation of the real
    one, half of it for the tolerance and half for the chance that no candidate is accepted. (And
    within T times `candidates` times 2^-64, for coins of 64 bits.)

    `beta`, in (0, 1), is the statistical difference allowed. Candidates and coins are drawn from
    the words when the learner is made.

    Source: KLNRS08 Lemma 4.4; deviations: candidates that are drawn in advance (one query a call,
    as printed, is not enough to accept any), tau' = beta/(2T).
    """
    each = _beta_per_call(algorithm, beta)
    spent = Spent(algorithm)
    drawn: list[list[tuple[bytes, Product, int]]] = []
    questions: list[Question] = []
    known: dict[tuple[Query, Randomizer, bytes], tuple[Product, Question]] = {}
    for call in algorithm.calls:
        spent.charge(call)
        coins = call.randomizer.coins
        tries = []
        for *own, coin in _rows(words, candidates(call, each), coins + 1):
            report = call.randomizer.randomize(0, own)
            key = (call.query, call.randomizer, report)
            if key not in known:
                asked = product_of((Factor.of(call, report),))
                known[key] = asked, asked.question(each / 2)
            tries.append((report, known[key][0], coin))
            questions.append(known[key][1])
        drawn.append(tries)

    def conclude(answers: Answers) -> T:
        told = iter(zip(questions, answers, strict=True))
        reports = []
        for tries in drawn:
            kept: bytes | None = None
            for report, asked, coin in tries:
                question, answer = next(told)
                if kept is None:
                    chance = acceptance(asked.estimate(answer.value, question), asked)
                    kept = report if coin < chance * _WORD else None
            reports.append(tries[-1][0] if kept is None else kept)
        return algorithm.conclude(tuple(reports))

    return NonAdaptive(
        name=algorithm.name,
        version=1,
        parameters={"beta": str(rational(beta, "beta"))},
        schema=algorithm.schema,
        batch=Batch(questions),
        conclude=conclude,
    )


def by_adaptive_queries(
    algorithm: Interactive[T] | NonInteractive[T], beta: Rational, words: Callable[[], Words]
) -> Adaptive[T]:
    """The simulation of any local algorithm by adaptive queries.

    Utility: T calls become about T (e^eps + 1) queries in expectation, a round each, of tolerance
    about beta / (2 T (e^(2 eps) - 1)); with any valid oracle the conclusion's law is within beta in
    total variation of the real one.

    `beta`, in (0, 1), is the statistical difference allowed; `words` opens the stream of candidates
    and coins, the same for every run.

    Source: KLNRS08 Lemma 4.5; T is the number of all calls (the paper has t for those and for a
    user's).
    """
    each = _beta_per_call(algorithm, beta)
    return Adaptive(
        name=algorithm.name,
        version=1,
        parameters={"beta": str(rational(beta, "beta"))},
        schema=algorithm.schema,
        factory=lambda: _adaptively(algorithm, each, words()),
    )


def _adaptively(algorithm: LocalAlgorithm[T], each: Fraction, words: Words) -> Learning[T]:
    spent, run = Spent(algorithm), algorithm.run()
    reports: dict[int, tuple[Factor, ...]] = {}
    try:
        call = next(run)
        while True:
            spent.charge(call)
            before = reports.get(call.user, ())
            relative = relative_error(before, each)
            known_before = Fraction(1)
            if before:
                known_before = yield from _ask(product_of(before), relative)
            for _ in range(MAX_TRIES):
                report = _from_zero(call, words)
                factor = Factor.of(call, report)
                both = yield from _ask(product_of((*before, factor)), relative)
                chance = acceptance(both / known_before, product_of((factor,)))
                if happens(words, chance, 1)[0]:
                    break
            else:
                raise InvalidParameter(f"{algorithm.name}: no report of {MAX_TRIES} was accepted")
            reports[call.user] = (*before, factor)
            call = run.send(report)
    except StopIteration as end:
        concluded: T = end.value
        return concluded
    finally:
        run.close()


def _ask(asked: Product, relative: Fraction) -> Learning[Fraction]:
    question = asked.question(relative)
    (answer,) = yield Batch([question])
    return asked.estimate(answer.value, question)


def relative_error(before: tuple[Factor, ...], each: Fraction) -> Fraction:
    """Compute the relative error of each estimate that keeps p~ within a factor 1 -+ each."""
    # A first report's p is one estimate; a later one's the ratio of two, each within 1 -+ x, so
    # within (1 + x) / (1 - x) = 1 + each for x = each / (2 + each).
    return each / (2 + each) if before else each


def acceptance(estimate: Fraction, asked: Product) -> Fraction:
    """min(1, p~(w) / (q(w) e^eps)), and never less than 0."""
    return min(max(estimate / (asked.base * asked.ratio), Fraction(0)), Fraction(1))


def candidates(call: LocalCall, each: Fraction) -> int:
    """Compute how many draws of R(0) have one accepted, except with probability each/2."""
    # A valid oracle lets one be accepted with probability (1 - each/2) e^-eps at least.
    loss = call.randomizer.loss
    ratio = Fraction(loss.numerator, loss.denominator)
    return ceil(float(ratio / (1 - each / 2)) * log(2 / float(each)))


def _rows(words: Words, count: int, wide: int) -> list[list[int]]:
    """Draw `count` rows of `wide` words together."""
    rows: list[list[int]] = words.take(count * wide).reshape(count, wide).tolist()
    return rows


def _from_zero(call: LocalCall, words: Words) -> bytes:
    """Draw w ~ R(0)."""
    coins = words.take(call.randomizer.coins).tolist()
    return call.randomizer.randomize(0, coins)


def _beta_per_call(algorithm: LocalAlgorithm[T], beta: Rational) -> Fraction:
    allowed = rational(beta, "beta")
    if not 0 < allowed < 1:
        raise InvalidParameter(f"beta expects a distance in (0, 1), got {value_text(beta)}")
    return allowed / algorithm.calls_at_most
