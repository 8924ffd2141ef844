"""Advice after a result that is worth little: how much more exact answers could be, by the planner.

Noise falls with more users, with a larger epsilon and with fewer columns, and a simpler question
may have an answer where this one has none. Each is planned for, so that the figures are those that
`askance plan` prints; no user is asked. A gain of less than a third is not advised.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, log2
from typing import Any

from askance_aggregator.learners import (
    Classifier,
    Learner,
    Regressor,
    find,
    hypothesis_from_json,
    mean,
)
from askance_aggregator.names import names_of
from askance_aggregator.planning import StudyPlan
from askance_aggregator.studies.study import Study
from askance_aggregator.studies.submitted import SubmissionRefused, learner_of
from askance_client.accounting import NANO_NATS_PER_NAT
from askance_client.errors import InvalidParameter, InvalidQuery, PlanRefused
from askance_client.messages import StudyTerms
from askance_client.queries import Category, Integer, Real

MAX_NANO_NATS = 16 * NANO_NATS_PER_NAT  # beyond it nothing is private that is worth the name
_FOURFOLD = 4  # users or, by the inverse, columns: answers are about half as far off
_HALF = Fraction(1, 2)
_TOLERANCES = ("tau", "accuracy")
GAIN = 2 / 3  # of a tolerance or a half width: what is less than a third smaller is no gain
_ANSWERED = 0.25  # of the range: a simpler question is advised if its answer is within this
_PAIR = 2  # columns at least of a question about their relation
_OUT_OF_REACH = 16  # times the users: few studies find as many
_SIMPLE = ("mean", "trend")  # learners of questions that cannot be simpler


@dataclass(frozen=True, slots=True)
class Advice:
    """Changes of a study that make its answers more exact, each in a few words."""

    options: tuple[str, ...]

    def __str__(self) -> str:
        return "what would help, by the planner: " + "; ".join(self.options)


def advice(study: Study, users: int, tau: float, hypothesis: Any) -> Advice | None:
    """Plan for more users, a larger epsilon and fewer columns; None where no plan is better."""
    if tau <= 0:
        return None
    batch = next(study.learner.run())
    if all(question.tau is not None for question in batch.questions):
        return _of_options(_finer(study))
    enough, wanted = _more_users(study, users)
    few = enough >= _OUT_OF_REACH * users
    made, columns = _with_fewer_columns(study, hypothesis)
    both = None
    if few and made is not None:
        both = _fewer_at_larger_epsilon(made, columns, users, tau, wanted)
    return _of_options(
        f"{enough:,} users (answers within {wanted:.3g} instead of {tau:.3g})"
        if wanted <= GAIN * tau
        else None,
        both,
        None if both else _larger_epsilon(study, users, tau, enough),
        None if both or made is None else _fewer_columns(made, columns, users, tau),
        _simpler_question(study, users) if few else None,
    )


def advice_on_content(terms: StudyTerms, content: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what would help a study of an aggregator; none: nothing is known."""
    conduct, users = terms.conduct, content["users"]
    with suppress(SubmissionRefused, PlanRefused, InvalidParameter, InvalidQuery):
        study = Study(
            learner_of(terms),
            terms.schema,
            epsilon=Fraction(terms.budget_nano_nats, NANO_NATS_PER_NAT),
            beta=conduct.beta,
            confidence=conduct.confidence,
            waves=conduct.waves,
            least_answers=conduct.least_answers,
        )
        hypothesis = hypothesis_from_json(content["learner"], content["hypothesis"])
        found = advice(study, users, _tau(study.plan(users)), hypothesis)
        names = names_of(terms.schema)
        return () if found is None else tuple(map(names.in_text, found.options))
    return ()


def _of_options(*options: str | None) -> Advice | None:
    known = tuple(option for option in options if option)
    return Advice(known) if known else None


def _tau(planned: StudyPlan) -> float:
    return max(round_.tau for round_ in planned.rounds)


def _more_users(study: Study, users: int) -> tuple[int, float]:
    """Take as many users as the planner asks for of its own, at least four times as many."""
    enough = max(study.plan().users_needed, _FOURFOLD * users)
    return enough, _tau(study.plan(enough))


def _larger_epsilon(study: Study, users: int, tau: float, enough: int) -> str | None:
    """Take the epsilon that replaces so many users."""
    budget = _budget_for(study, users, enough)
    found = None if budget is None else _planned(study, study.learner, users, budget)
    if budget is None or found is None or found > GAIN * tau:
        return None
    return f"epsilon {budget / NANO_NATS_PER_NAT:.3g} ({found:.3g})"


def _budget_for(study: Study, users: int, enough: int) -> int | None:
    """Return the nano-nats that replace so many users, if they fell with its square; 16 at most."""
    doublings = ceil(log2(enough / users) / 2)
    budget = min(study.nano_nats << doublings, MAX_NANO_NATS)
    return budget if budget > study.nano_nats else None


def _fewer_columns(made: Study, columns: str, users: int, tau: float) -> str | None:
    """Take the study of fewer columns."""
    found = _planned(made, made.learner, users, made.nano_nats)
    return None if found is None or found > GAIN * tau else f"{columns} ({found:.3g})"


def _with_fewer_columns(study: Study, hypothesis: Any) -> tuple[Study | None, str]:
    """Return the study of the first quarter of the columns, if it can be one, and their number."""
    text = _text_of(study)
    if text is None:
        return None, ""
    predicted = _predicted(hypothesis)
    columns = [name for name in study.fields if name not in predicted]
    if "columns" in text:
        columns = text["columns"].split(",")
    for kept in (max(len(columns) // _FOURFOLD, 1), _PAIR):  # some questions need two
        made = _rebuilt(study, {**text, "columns": ",".join(columns[:kept])})
        if made is not None and kept < len(columns):
            return made, f"{kept} of {len(columns)} columns"
    return None, ""


def _fewer_at_larger_epsilon(
    made: Study, columns: str, users: int, tau: float, wanted: float
) -> str | None:
    """Take fewer columns and a larger epsilon: the least that gives answers as exact as wanted."""
    found, budget = None, made.nano_nats
    while 2 * budget <= MAX_NANO_NATS and (found is None or found > wanted):
        budget *= 2
        found = _planned(made, made.learner, users, budget)
    if found is None or found > GAIN * tau:
        return None
    return f"{columns} at epsilon {budget / NANO_NATS_PER_NAT:.3g} ({found:.3g})"


def _simpler_question(study: Study, users: int) -> str | None:
    """Take one share, or the mean of one number, at the least epsilon at which users answer it."""
    budget = study.nano_nats
    while study.learner.name not in _SIMPLE and budget <= MAX_NANO_NATS:
        answered = [*_one_share(study, users, budget), *_one_mean(study, users, budget)]
        if answered:
            at = f" at epsilon {budget / NANO_NATS_PER_NAT:.3g}"
            larger = at if budget > study.nano_nats else ""
            return f"a simpler question{larger}: {' or '.join(answered)}"
        budget *= 2
    return None


def _one_share(study: Study, users: int, budget: int) -> Iterator[str]:
    """Generate the share of the first category, if users answer it."""
    for name in study.fields:
        kind = study.schema.fields[name]
        if isinstance(kind, Category):
            found = _planned(study, mean(study.schema[name] == kind.labels[0]), users, budget)
            if found is not None and found <= _ANSWERED:
                yield f"a share of {name} (within {found:.3g})"
            return


def _one_mean(study: Study, users: int, budget: int) -> Iterator[str]:
    """Generate the mean of the first number, if users answer it."""
    for name in study.fields:
        kind = study.schema.fields[name]
        if isinstance(kind, Integer | Real):
            found = _planned(study, mean(study.schema[name]), users, budget)
            if found is not None and found <= _ANSWERED * (float(kind.high) - float(kind.low)):
                yield f"the mean of {name} (within {found:.3g})"
            return


def _planned(study: Study, learner: Learner[Any], users: int, budget: int) -> float | None:
    """Return the tolerance of a learner with these users and budget; None: it is refused."""
    with suppress(PlanRefused):
        return _tau(_changed(study, learner, budget).plan(users))
    return None


def _finer(study: Study) -> str | None:
    """Halve the tolerance that the study states."""
    text = _text_of(study) or {}
    for name in (name for name in _TOLERANCES if name in text):
        halved = str(Fraction(text[name]) * _HALF)
        made = _rebuilt(study, {**text, name: halved})
        if made is not None:
            return f"{name}={halved} ({made.plan().users_needed:,} users are enough)"
    return None


def _changed(study: Study, learner: Learner[Any], nano_nats: int) -> Study:
    """Return the study with another learner and budget."""
    return Study(
        learner,
        study.schema,
        epsilon=Fraction(nano_nats, NANO_NATS_PER_NAT),
        beta=study.beta,
        confidence=study.confidence,
        design=study.design,
        waves=study.conduct.waves,
        least_answers=study.conduct.least_answers,
    )


def _text_of(study: Study) -> dict[str, str] | None:
    """Return the text that the catalogue builds the learner from; None where it has none."""
    with suppress(InvalidParameter, InvalidQuery):
        return find(study.learner.name).spell(study.learner, study.schema)
    return None


def _rebuilt(study: Study, text: Mapping[str, str]) -> Study | None:
    """Return the study of the learner that these texts make; None where they make none."""
    with suppress(InvalidParameter, InvalidQuery):
        learner = find(study.learner.name).build(study.schema, text)
        return _changed(study, learner, study.nano_nats)
    return None


def _predicted(hypothesis: Any) -> frozenset[str]:
    """Return the name of the column that a hypothesis predicts."""
    if isinstance(hypothesis, Classifier):
        return frozenset((hypothesis.label,))
    return frozenset((hypothesis.target,)) if isinstance(hypothesis, Regressor) else frozenset()
