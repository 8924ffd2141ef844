"""Exact laws of transcripts: of a local algorithm, and of its simulation by queries.

Every user is drawn from a finite weighted population; a run's transcript is the tuple of its
reports, and what is concluded is a function of it, so two laws of conclusions are never further
apart than those of transcripts. All is enumerated in rational numbers: for small cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import TypeVar

from askance_aggregator.families import family_of
from askance_aggregator.learners import Batch
from askance_aggregator.oracles import Oracle
from askance_aggregator.oracles.expectations import Weights
from askance_aggregator.queries import EncodedColumns, evaluate_columns
from askance_client.exact_laws import probability
from askance_papers.reductions.back import acceptance, candidates, relative_error
from askance_papers.reductions.local_algorithms import (
    Interactive,
    LocalAlgorithm,
    LocalCall,
    NonInteractive,
)
from askance_papers.reductions.products import Factor, Product, product_of

T = TypeVar("T")
Reports = tuple[bytes, ...]
Law = dict[Reports, Fraction]
"""Probabilities of transcripts; they sum to 1."""

History = tuple[tuple[LocalCall, bytes], ...]
Next = Callable[[LocalCall, History], dict[bytes, Fraction]]
"""The law of a call's report, given its user's earlier ones."""


def local_law(
    algorithm: LocalAlgorithm[T], people: EncodedColumns, weights: Weights | None = None
) -> Law:
    """Compute the law of the algorithm itself.

    Independent users, each asked through its randomizers.

    People are the distribution's support, a row a record; weights are as of `ExactOracle`.
    """
    masses = [1] * people.rows if weights is None else [int(weight) for weight in weights]

    def report_law(call: LocalCall, history: History) -> dict[bytes, Fraction]:
        posterior = [Fraction(mass) for mass in masses]
        for earlier, report in history:
            posterior = _weighed(posterior, earlier, report)
        whole = sum(posterior)
        return {
            report: sum(_weighed(posterior, call, report), Fraction()) / whole
            for report in family_of(call.randomizer).alphabet()
        }

    def _weighed(masses: list[Fraction], call: LocalCall, report: bytes) -> list[Fraction]:
        levels = evaluate_columns(call.query, people).tolist()
        return [
            mass * probability(call.randomizer, level, report)
            for mass, level in zip(masses, levels, strict=True)
        ]

    return _transcripts(algorithm, report_law)


def simulated_law(algorithm: Interactive[T], beta: Fraction, oracle: Oracle) -> Law:
    """Compute the law of `by_adaptive_queries`; the oracle answers equal queries equally."""
    each = beta / algorithm.calls_at_most

    def report_law(call: LocalCall, history: History) -> dict[bytes, Fraction]:
        before = tuple(Factor.of(earlier, report) for earlier, report in history)
        relative = relative_error(before, each)
        known = _estimate(product_of(before), relative, oracle) if before else Fraction(1)
        kept = {}
        for report in family_of(call.randomizer).alphabet():
            own = product_of((Factor.of(call, report),))
            both = _estimate(product_of((*before, *own.factors)), relative, oracle)
            kept[report] = own.base * acceptance(both / known, own)
        whole = sum(kept.values())
        return {report: mass / whole for report, mass in kept.items()}

    return _transcripts(algorithm, report_law)


def simulated_law_in_one_round(algorithm: NonInteractive[T], beta: Fraction, oracle: Oracle) -> Law:
    """Compute the law of `by_queries`, up to the 64 bits of its coins."""
    each = beta / algorithm.calls_at_most

    def report_law(call: LocalCall, history: History) -> dict[bytes, Fraction]:
        drawn, kept = {}, {}
        for report in family_of(call.randomizer).alphabet():
            own = product_of((Factor.of(call, report),))
            drawn[report] = own.base
            kept[report] = own.base * acceptance(_estimate(own, each / 2, oracle), own)
        refused = 1 - sum(kept.values())
        all_refused = refused ** candidates(call, each)
        return {
            report: kept[report] / (1 - refused) * (1 - all_refused)
            + (all_refused * (drawn[report] - kept[report]) / refused if refused else 0)
            for report in drawn
        }

    return _transcripts(algorithm, report_law)


def total_variation(one: Law, other: Law) -> Fraction:
    """Half the sum of the differences: the most that any event's probability differs by."""
    reports = one.keys() | other.keys()
    none = Fraction(0)
    return sum((abs(one.get(w, none) - other.get(w, none)) for w in reports), none) / 2


def _estimate(asked: Product, relative: Fraction, oracle: Oracle) -> Fraction:
    question = asked.question(relative)
    (answer,) = oracle.answer(Batch([question]))
    return asked.estimate(answer.value, question)


def _transcripts(algorithm: LocalAlgorithm[T], report_law: Next) -> Law:
    known: dict[tuple[LocalCall, History], dict[bytes, Fraction]] = {}
    law: Law = {}
    for reports, chance in _walk(algorithm, report_law, known, (), (), Fraction(1)):
        law[reports] = law.get(reports, Fraction(0)) + chance
    return law


def _walk(
    algorithm: LocalAlgorithm[T],
    report_law: Next,
    known: dict[tuple[LocalCall, History], dict[bytes, Fraction]],
    calls: tuple[LocalCall, ...],
    reports: Reports,
    chance: Fraction,
) -> Iterator[tuple[Reports, Fraction]]:
    """All ways a run may go on from these reports; the algorithm is run again for each."""
    run = algorithm.run()
    try:
        call = next(run)
        for report in reports:
            call = run.send(report)
    except StopIteration:
        yield reports, chance
        return
    finally:
        run.close()
    pairs = zip(calls, reports, strict=True)
    # Users with equal questions and equal answers are alike.
    history = tuple((_anyone(c), report) for c, report in pairs if c.user == call.user)
    key = (_anyone(call), history)
    if key not in known:
        known[key] = report_law(*key)
    for report, mass in known[key].items():
        if mass:
            yield from _walk(
                algorithm, report_law, known, (*calls, call), (*reports, report), chance * mass
            )


def _anyone(call: LocalCall) -> LocalCall:
    return LocalCall(0, call.query, call.randomizer)
