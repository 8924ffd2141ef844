"""Generalised linear models by gradients: one vector question per round, to users of its own.

Every round asks fresh users for the gradient at the weights so far, with their whole epsilon
(`glm_gradients`), and moves against it by the rate. The weights that are concluded are the mean of
those of the last half of the rounds, which averages the noise of the steps out (Polyak and Juditsky
1992).

**Promise.** Let J be the mean loss plus penalty / 2 |w|^2 (without the intercept), with residuals
clipped as they are asked, so that J is still convex, and L = curvature R^2 + penalty with R^2 the
greatest |x|^2. If every component of every answer is within tau and the rate is at most 1 / L, then
after T rounds, for every minimiser w, with e = tau sqrt(d), D = |w| + rate e T:

    J(concluded) - J(w) <= D^2 / (rate T) + e D.

Derivation: convexity and L-smoothness give J(w_(t+1)) - J(w) <= <g, w_(t+1) - w> + |s|^2 / (2 rate)
with the step s = -rate (g + error). This is (|w_t - w|^2 - |w_(t+1) - w|^2) / (2 rate)
- <error, w_(t+1) - w>; the first part telescopes over the last T / 2 rounds, the second is at most
e D, since an exact step takes no weights farther from w and the error adds at most rate e. J of a
mean is at most the mean of J. (Weights are rounded to multiples of 2^-12, half of which per
coordinate, over the rate, adds to tau.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import Annotated, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.conditions import Conditions, planned_tau
from askance_aggregator.learners.constant_checks import (
    ModelChoice,
    asked_of_a_fifth,
    check_decision,
)
from askance_aggregator.learners.glm_gradients import Features, GradientQuestion, Loss
from askance_aggregator.learners.glm_rules import Noise, Scale, affordable, rate_of, users_for
from askance_aggregator.learners.learning import Answer, Batch, Learning, Question
from askance_aggregator.learners.linear_classifiers import on_weight_grid
from askance_aggregator.learners.parameters import check_rounds
from askance_aggregator.numbers import Rational, positive, rational
from askance_client.queries import MAX_COMPONENTS

EXACT_ROUNDS = 128  # where nothing is known of users and noise
EXACT_CLIP = Fraction(4)  # likewise; few gradients are as long
MOST_CLIP = 8
MOST_RATE = 1000

Rounds = Annotated[int | None, "number of steps (default: by users and noise, 8 to 128)"]
Rate = Annotated[Rational | None, "the step per unit of gradient (default: by noise and rounds)"]
Clip = Annotated[Rational | None, "bound of the length of a record's gradient (default: by noise)"]


@dataclass(frozen=True, slots=True)
class DescentSettings:
    """Settings of a descent as they were given; what is None follows from the conditions.

    Args:
        rounds: T, 1 .. 10,000.
        rate: in (0, 1000].
        clip: in (0, 8].
    """

    rounds: int | None = None
    rate: Rational | None = None
    clip: Rational | None = None
    decide: str | None = None
    tau: Rational | None = None

    def __post_init__(self) -> None:
        if self.rounds is not None:
            check_rounds(self.rounds)
        for name, value, most in (
            ("rate", self.rate, MOST_RATE),
            ("clip", self.clip, MOST_CLIP),
            ("tau", self.tau, None),
        ):
            if value is not None:
                positive(value, name, most)
        check_decision(self.decide)

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> DescentSettings:
        """Return the settings among a learner's arguments."""
        names = ("rounds", "rate", "clip", "decide", "tau")
        return cls(**{name: arguments[name] for name in names})


class ConstantCheck(Protocol):
    """Interface of a comparison of a fitted model with the constant, by a fifth of the users."""

    def variance(self, conditions: Conditions) -> float:
        """Return n times the variance of the advantage that it estimates, n all users."""

    @property
    def mean(self) -> Question:
        """The question for the mean outcome, or for the second class's share."""

    def constants(self, answers: Sequence[Answer]) -> NDArray[np.float64]:
        """Return the weights of the constant by answers to `mean`."""

    def constant(
        self, weights: NDArray[np.float64], given: DescentSettings
    ) -> Learning[NDArray[np.float64] | None]:
        """Return the constant's weights if it is no worse; None: the model is better."""


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """Model that a descent fits; penalty / 2 |w|^2, not negative, is added to its loss."""

    features: Features
    loss: Loss
    scale: Scale
    check: ConstantCheck
    penalty: Fraction = Fraction(0)

    def settled(self, given: DescentSettings, conditions: Conditions) -> dict[str, Any]:
        """Return the settings that were not given, made for these conditions.

        Without a number of users they are made for `glm_rules.users_for`, and a tolerance is set
        by which a plan asks for about so many.
        """
        noise, tau = self.noise(conditions), None
        exact = given.tau is not None
        chosen = {
            "rounds": noise.rounds,
            "rate": noise.rate(self.scale, self.loss.curvature, self.features.typical),
            "clip": noise.clip(self.scale),
            "decide": str(ModelChoice.MODEL if exact else self._decision(noise, conditions)),
        }
        if conditions.users is None and given.tau is None:
            tau = self._planned_tau({**chosen, **_known(given)}, noise.users, conditions)
        return {**chosen, "tau": tau, **_known(given)}

    def noise(self, conditions: Conditions) -> Noise:
        """Compute the noise of a gradient of length at most 1, all users asked."""
        asked = GradientQuestion(self.features, self.loss, Fraction(1))
        count = self.features.count
        variance = conditions.noise(asked.at(np.zeros(count)))
        enough = users_for(count, variance, self.scale.planned)
        users = enough if conditions.users is None else conditions.users
        return Noise(variance, count, users)

    def _decision(self, noise: Noise, conditions: Conditions) -> ModelChoice:
        def deviation() -> float:
            return sqrt(self.check.variance(conditions) / noise.users)

        return noise.decision(self.scale, deviation)

    def _planned_tau(
        self, chosen: Mapping[str, Any], users: int, conditions: Conditions
    ) -> Fraction:
        """Return the tolerance of a component that so many users keep, rounded upward."""
        rounds, count = chosen["rounds"], self.features.count
        asked = GradientQuestion(self.features, self.loss, rational(chosen["clip"], "clip"))
        question = asked.at(np.zeros(count))
        kept = conditions.tolerance(question, max(users // rounds, 1), rounds * count)
        return planned_tau(kept)


class Task(Protocol):
    """Interface of a study of a model by gradients: its fields can be restricted."""

    @property
    def widths(self) -> dict[str, int]:
        """Number of features of each field."""

    @property
    def model(self) -> Model:
        """Model that is fitted."""

    def restricted(self, fields: Sequence[str]) -> Self:
        """Return the task with some of its fields."""


def settle(task: Task, arguments: Mapping[str, Any], conditions: Conditions) -> dict[str, Any]:
    """Set the columns, then what follows from them, once the number of users is known."""
    if conditions.signing:
        return {}
    columns = arguments["columns"]
    if columns is None and conditions.users is not None:
        columns = _columns(task, conditions)
        task = task if columns is None else task.restricted(columns)
    return {"columns": columns, **task.model.settled(DescentSettings.of(arguments), conditions)}


def _columns(task: Task, conditions: Conditions) -> tuple[str, ...] | None:
    """Return the fields that users and noise allow, one at least; None: all."""
    names, widths = list(task.widths), list(task.widths.values())
    fitting = affordable(widths, 0.0, 0, MAX_COMPONENTS, 0.0)
    model = task.restricted([names[place] for place in fitting]).model
    variance, limit = model.noise(conditions).variance, model.scale.most_noise
    kept = affordable(widths, variance, conditions.users or 0, MAX_COMPONENTS, limit)
    return None if len(kept) == len(names) else tuple(names[place] for place in kept)


def fit(model: Model, given: DescentSettings) -> Learning[NDArray[np.float64]]:
    """Learn the weights of the model, or of the constant where that is decided or no worse."""
    if given.decide == ModelChoice.CONSTANT:
        answers = yield Batch([model.check.mean])
        return model.check.constants(answers)
    weights = yield from descend(model, given)
    if given.decide == ModelChoice.CHECK:
        constants = yield from model.check.constant(weights, given)
        if constants is not None:
            return constants
    return weights


def descend(model: Model, given: DescentSettings) -> Learning[NDArray[np.float64]]:
    """Ask for gradients and follow them; return the weights, of the constant and the features."""
    rounds = EXACT_ROUNDS if given.rounds is None else given.rounds
    scale, features = model.scale, model.features
    usual = rate_of(scale.rate, scale.multiple, model.loss.curvature, features.typical)
    rate = float(usual if given.rate is None else rational(given.rate, "rate"))
    clip = EXACT_CLIP if given.clip is None else rational(given.clip, "clip")
    tau = None if given.tau is None else rational(given.tau, "tau")
    weights, total, counted = np.zeros(features.count), np.zeros(features.count), 0
    pull = np.full(features.count, float(model.penalty))
    pull[0] = 0.0
    asked = GradientQuestion(features, model.loss, clip)
    known: dict[bytes, Batch] = {}  # a rehearsal stays where it began
    for number in range(rounds):
        place = weights.tobytes()
        if place not in known:
            known[place] = Batch([asked.at(weights, tau)])
        (answer,) = yield known[place]
        weights = on_weight_grid(weights - rate * (np.array(answer.values) + pull * weights))
        if 2 * number >= rounds - 1:
            total, counted = total + weights, counted + 1
    return on_weight_grid(total / counted)


def of_a_fifth(question: Question, given: DescentSettings, parts: int = 1) -> Batch:
    """Return a batch that asks a question of a fifth of all users (`asked_of_a_fifth`)."""
    rounds = EXACT_ROUNDS if given.rounds is None else given.rounds
    return asked_of_a_fifth(question, rounds, parts)


def _known(given: DescentSettings) -> dict[str, Any]:
    """Return the settings that were given."""
    names = ("rounds", "rate", "clip", "decide", "tau")
    pairs = ((name, getattr(given, name)) for name in names)
    return {name: value for name, value in pairs if value is not None}
