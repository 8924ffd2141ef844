"""KLNRS08, Lemma 4.3: a statistical query is answered by local randomizers."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, exp, floor, log, log1p, sqrt
from typing import Any

import numpy as np

from askance_aggregator.learners import Allocation, Batch, Question
from askance_aggregator.planning import plan_batch
from askance_aggregator.queries import real
from askance_client.accounting import parse_epsilon
from askance_client.exact_laws import probability
from askance_client.queries import Integer, Schema
from askance_client.randomizers import Randomizer
from askance_papers.reproduce.checks import (
    NoiseCheck,
    bit_noise,
    normal_noise,
    rate_agrees,
    rate_exceeded,
)
from askance_papers.reproduce.counting import generator, round_answers
from askance_papers.reproduce.klnrs08.lemma_4_2 import best_t
from askance_papers.reproduce.reproduction import Reproduction, Row, Setting
from askance_simulation.plots.style import ACCENT, BAD, QUIET, plain
from askance_simulation.randomness import Seed

NAME = "lemma-4.3"
TAU, BETA = 0.1, 0.05
SCHEMA = Schema("sign", 1, g=Integer(-1, 1))
QUESTION = Question(real(SCHEMA["g"]), "0.1")
EPSILONS = ("0.25", "0.5", "1", "2", "4")


def reproduce(setting: Setting) -> Reproduction:
    """Reproduce the lemma with one bit per user, and with the paper's Laplace randomizer."""
    trials = 2000 if setting.quick else 50_000
    rows: list[Row] = []
    for epsilon in EPSILONS:
        for queries in (1, 10):
            seed = setting.seed / NAME / f"{epsilon} {queries}"
            rows.append(one_bit(epsilon, queries, trials // queries, seed / "bit"))
            rows.append(laplace(epsilon, queries, trials // queries, seed / "laplace"))
        setting.progress(f"epsilon = {epsilon}")
    return Reproduction(
        name=NAME,
        source="KLNRS08, Claim 4.1, Lemma 4.3",
        statement=(
            "O(b^2 log(1/beta) / (eps^2 tau^2)) users, each with an eps-local randomizer, answer a"
            " query with values in [-b, b] within tau except with probability beta; t queries take"
            " a fresh portion each, at beta/t."
        ),
        differs_from_print=(
            "With reports of one bit the constant is exact: 2 C^2 b^2 ln(2t/beta)/tau^2 users a"
            " query, C = (e^eps + 1)/(e^eps - 1), by Hoeffding's inequality. (The paper adds"
            " Laplace noise of scale 2b/eps to each value.)"
        ),
        rows=tuple(rows),
        notes=(
            f"b = 1, tau = {TAU:g}, beta = {BETA:g}; values are fair signs, the hardest law.",
            "The Laplace rows' users are what Hoeffding's inequality at tau/2 for the sample and"
            " the corrected Lemma 4.2 at tau/2 for the noise ask for.",
            "'measured' is the share of trials in which any answer was off by tau or more: within"
            " beta, and from both sides what 'exactly' says where it is known.",
            "noise: root mean square of the answers' errors over that of the randomizer and the"
            " sample, claimed from both sides. The false-alarm rate of every check is 1e-6.",
        ),
        draw=lambda figure: _draw(figure, rows),
    )


def one_bit(epsilon: str, queries: int, trials: int, seed: Seed) -> Row:
    """Measure the planner's one-bit randomizer."""
    batch = Batch([QUESTION] * queries, allocation=Allocation.FRESH)
    planned = plan_batch(batch, parse_epsilon(epsilon), BETA / queries)
    told = round_answers(batch.questions, planned, [(0.5, 0.5)] * queries, generator(seed), trials)
    failed = sum(any(abs(answer.value) >= TAU for answer in answers) for answers in told)
    users = planned.groups[0].users
    chance = 1 - (1 - off_chance(planned.groups[0].randomizer, users)) ** queries
    shares = [[(answer.value + 1) / 2 for answer in answers] for answers in told]
    noise = bit_noise(shares, 0.5, users, float(epsilon))
    right = chance <= BETA and rate_agrees(failed, trials, chance) and noise.possible
    return _row("one bit", epsilon, queries, users, chance, failed, trials, noise) | {
        "holds": right and users <= printed_users(float(epsilon), queries)
    }


def laplace(epsilon: str, queries: int, trials: int, seed: Seed) -> Row:
    """Run Claim 4.1's randomizer: the value plus Laplace noise of scale 2b/eps."""
    scale, rng = 2 / float(epsilon), generator(seed)
    users = laplace_users(float(epsilon), queries)
    signs = 2 * rng.binomial(users, 0.5, (trials, queries)) / users - 1
    shape = (trials, queries)
    drawn = scale * (rng.gamma(users, size=shape) - rng.gamma(users, size=shape)) / users
    failed = int((np.abs(signs + drawn) >= TAU).any(axis=1).sum())
    noise = normal_noise(signs + drawn, sqrt((1 + 2 * scale**2) / users))
    return _row("Laplace", epsilon, queries, users, None, failed, trials, noise) | {
        "holds": noise.possible and not rate_exceeded(failed, trials, BETA)
    }


def off_chance(randomizer: Randomizer, users: int) -> float:
    """Compute the probability that the mean of fair signs is off by tau or more."""
    from scipy.stats import binom

    lie, own = (float(probability(randomizer, level, b"\x01")) for level in (0, 1))
    reach = TAU / 2 * (own - lie)
    low, high = ceil(users * (0.5 - reach)), floor(users * (0.5 + reach))
    return float(1 - binom.cdf(high, users, 0.5) + binom.cdf(low - 1, users, 0.5))


def printed_users(epsilon: float, queries: int) -> int:
    """Compute 2 C^2 b^2 ln(2t/beta) / tau^2."""
    constant = (exp(epsilon) + 1) / (exp(epsilon) - 1)
    return ceil(2 * constant**2 * log(2 * queries / BETA) / TAU**2)


def laplace_users(epsilon: float, queries: int) -> int:
    """Return the least for which sample and noise are each within tau/2, at half of beta/t each."""
    needed = log(4 * queries / BETA)
    tau = TAU / 2 / (2 / epsilon)
    t = best_t(tau)
    return ceil(max(needed * 2 / (TAU / 2) ** 2, needed / (t * tau + log1p(-t * t))))


def _row(
    what: str,
    epsilon: str,
    queries: int,
    users: int,
    chance: float | None,
    failed: int,
    trials: int,
    noise: NoiseCheck,
) -> dict[str, Any]:
    order = log(queries / BETA) / (float(epsilon) * TAU) ** 2
    return {
        "randomizer": what,
        "epsilon": float(epsilon),
        "t": queries,
        "users a query": users,
        "users / (ln(t/beta)/(eps tau)^2)": users / order,
        "beta": BETA,
        "exactly": chance,
        "measured": failed / trials,
        "trials": trials,
        "noise": noise.ratio,
    }


def _draw(figure: Any, rows: Sequence[Row]) -> None:
    axes = figure.subplots()
    plain(axes, f"Users for one query, τ = {TAU:g}, β = {BETA:g}", "ε", "users")
    for what, color in (("one bit", ACCENT), ("Laplace", BAD)):
        shown = [row for row in rows if row["randomizer"] == what and row["t"] == 1]
        epsilons = [row["epsilon"] for row in shown]
        axes.plot(epsilons, [row["users a query"] for row in shown], "o-", color=color, label=what)
    least = 2 * log(2 / BETA) / TAU**2
    axes.axhline(least, color=QUIET, ls="--", label="not private")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.legend(frameon=False)
