"""Notes, Theorem 5: monotone conjunctions, learned by local devices at the planned size.

The population is a hard one. Of the variables that are not in the target one half is 0 for just
such a share accuracy/d of positive examples that an answer off by tau keeps it wrongly, the other
half for a quarter more than tau, where it may go either way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from math import ceil, floor, log
from typing import Any

import numpy as np

from askance_aggregator.bisection import least_whole
from askance_aggregator.learners import Conjunction, NonAdaptive, conjunctions, conjunctions_schema
from askance_aggregator.planning import plan
from askance_client.accounting import parse_epsilon
from askance_client.exact_laws import probability
from askance_client.randomizers import Randomizer
from askance_papers.reproduce.checks import bit_noise, rate_exceeded
from askance_papers.reproduce.counting import generator, round_answers
from askance_papers.reproduce.reproduction import Reproduction, Row, Setting
from askance_simulation.plots.style import ACCENT, BAD, INK, QUIET, plain
from askance_simulation.randomness import Seed

NAME = "theorem-5"
ACCURACY, BETA, EPSILON = Fraction(1, 10), Fraction(1, 20), "1"
TARGET = (0, 1)
_FEW = 1.02  # users planned over those that the hardest shares take
_POSITIVE = 0.81  # the share of positive examples; each of the target's variables is 1 with .9


def reproduce(setting: Setting) -> Reproduction:
    """Count failures at the planner's number of users."""
    ds = (10, 50, 100) if setting.quick else range(10, 101, 10)
    trials = 100 if setting.quick else 1000
    rows: list[Row] = []
    for d in ds:
        rows.append(measured(d, trials, setting.seed / NAME / d))
        setting.progress(f"d = {d}")
    return Reproduction(
        name=NAME,
        source="notes, Theorem 5; with KLNRS08, Lemma 4.3, for users",
        statement=(
            "Monotone conjunctions over d bits are learned to error eps by d statistical queries"
            " [x_i = 0 and y = 1] of tolerance eps/(2d): x_i is kept iff the answer is at most"
            " that."
        ),
        differs_from_print=None,
        rows=tuple(rows),
        notes=(
            f"Local devices at epsilon = {EPSILON}, a fresh group a question; error"
            f" {float(ACCURACY):g}, beta = {float(BETA):g}. Tallies are drawn exactly in law.",
            "'users at beta' is where the chance that any answer is off by its tolerance is beta,"
            " by binomial laws, to a thousandth: what Hoeffding's inequality and the union over d"
            " questions leave unused.",
            f"No more is planned than {_FEW:g} times what shares of one half take for beta, the"
            " hardest ones, by the same laws.",
            "'invalid' is the share of trials in which any of the d answers was off by its"
            " tolerance or more, 'failed' that in which the hypothesis erred by more than is"
            " allowed or lost a variable of the target; both have to be within beta, with a"
            " false-alarm rate of 1e-6 a row.",
            "noise: root mean square of the answers' errors over that of randomized response with"
            " that many users, claimed from both sides (1e-6).",
            "With tau = eps/(2d) and d fresh groups users grow as d^3 ln d.",
        ),
        draw=lambda figure: _draw(figure, rows),
    )


def measured(d: int, trials: int, seed: Seed) -> Row:
    """Measure one number of variables."""
    learner = conjunctions(conjunctions_schema(d), ACCURACY)
    planned = plan(learner, parse_epsilon(EPSILON), BETA).rounds[0]
    randomizer = planned.groups[0].randomizer
    zeros = zero_rates(d)
    truth = [0.0 if j in TARGET else _POSITIVE * zeros[j] for j in range(d)]
    laws = [(1 - share, share) for share in truth]
    told = round_answers(learner.batch.questions, planned, laws, generator(seed), trials)
    tau = float(ACCURACY / (2 * d))
    invalid = sum(
        any(abs(answer.value - share) >= tau for answer, share in zip(answers, truth, strict=True))
        for answers in told
    )
    errors = [_error(learner, answers, zeros) for answers in told]
    failed = sum(error > float(ACCURACY) for error in errors)
    values = [[answer.value for answer in answers] for answers in told]
    sizes = [group.users for group in planned.groups]
    noise = bit_noise(values, truth, sizes, float(EPSILON))
    exact = invalid_chance(truth, tau, randomizer, planned.groups[0].users)
    worst = least_group([0.5] * d, tau, randomizer, planned.groups[0].users)
    return {
        "d": d,
        "tau": tau,
        "users planned": planned.users,
        "users, Hoeffding": planned.hoeffding_users,
        "users / d^3 ln d": planned.users / (d**3 * log(d)),
        "users at beta": d * least_group(truth, tau, randomizer, planned.groups[0].users),
        "trials": trials,
        "beta": float(BETA),
        "invalid, exactly": exact,
        "invalid": invalid / trials,
        "failed": failed / trials,
        "largest error": max(errors),
        "noise": noise.ratio,
        "holds": noise.possible
        and planned.users <= planned.hoeffding_users
        and planned.groups[0].users <= _FEW * worst
        and exact <= float(BETA)
        and not rate_exceeded(invalid, trials, exact)
        and not rate_exceeded(invalid, trials, float(BETA))
        and not rate_exceeded(failed, trials, float(BETA)),
    }


def invalid_chance(truth: Sequence[float], tau: float, randomizer: Randomizer, users: int) -> float:
    """Compute the chance that any answer is off by tau or more, exactly, from binomial counts."""
    from scipy.stats import binom

    lie, own = (float(probability(randomizer, level, b"\x01")) for level in (0, 1))
    right = 1.0
    for share, times in Counter(truth).items():
        rate, reach = lie + share * (own - lie), tau * (own - lie)
        low, high = ceil(users * (rate - reach)) - 1, floor(users * (rate + reach))
        right *= (binom.cdf(high, users, rate) - binom.cdf(low, users, rate)) ** times
    return float(1 - right)


def least_group(truth: Sequence[float], tau: float, randomizer: Randomizer, enough: int) -> int:
    """Find about the least users per question for which that chance is beta."""
    return least_whole(
        lambda users: invalid_chance(truth, tau, randomizer, users) <= float(BETA),
        1,
        enough,
        part=1000,
    )


def zero_rates(d: int) -> list[float]:
    """Return the probability that each variable is 0, independently of all others."""
    share = float(ACCURACY) / d / _POSITIVE
    near = [share if j % 2 else share * 5 / 8 for j in range(d)]
    return [1 - _POSITIVE**0.5 if j in TARGET else near[j] for j in range(d)]


def _error(learner: NonAdaptive[Conjunction], answers: Any, zeros: Sequence[float]) -> float:
    """Compute the error exactly: variables are independent; losing a target's variable costs 1."""
    kept = learner.conclude(answers).variables
    if not set(TARGET) <= set(kept):
        return 1.0
    ones = np.prod([1 - zeros[j] for j in kept if j not in TARGET])
    return float(_POSITIVE * (1 - ones))


def _draw(figure: Any, rows: Sequence[Row]) -> None:
    figure.set_size_inches(10, 4)
    left, right = figure.subplots(1, 2)
    ds = [row["d"] for row in rows]
    plain(left, f"Users at ε = {EPSILON}", "variables d", "users")
    left.plot(ds, [row["users, Hoeffding"] for row in rows], color=QUIET, lw=4, label="Hoeffding")
    left.plot(ds, [row["users planned"] for row in rows], "o-", color=ACCENT, label="planned")
    left.plot(ds, [row["users at beta"] for row in rows], "--", color=INK, label="β exactly")
    left.set_yscale("log")
    left.legend(frameon=False)
    plain(right, "Trials that fail, at the planned size", "variables d", "share of trials")
    right.plot(ds, [row["invalid"] for row in rows], "o", color=ACCENT, label="an answer is off")
    right.plot(ds, [row["failed"] for row in rows], "x", color=INK, label="the error is too large")
    right.axhline(float(BETA), color=BAD, lw=1.2, label=f"β = {float(BETA):g}")
    right.set_ylim(-0.002, 1.4 * float(BETA))
    right.legend(frameon=False)
    figure.tight_layout()
