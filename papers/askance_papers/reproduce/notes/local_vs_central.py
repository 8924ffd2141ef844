"""Users against epsilon: the local model beside a trusted curator, for the same guarantee."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, log
from typing import Any

import numpy as np

from askance_aggregator.learners import Allocation, Batch, conjunctions, conjunctions_schema
from askance_aggregator.oracles.central import CentralOracle, central_rows
from askance_aggregator.planning import plan_batch
from askance_aggregator.queries import EncodedColumns, encode_columns
from askance_client.accounting import parse_epsilon
from askance_papers.reproduce.checks import (
    NoiseCheck,
    bit_noise,
    close,
    laplace_noise,
    rate_exceeded,
)
from askance_papers.reproduce.counting import generator, round_answers
from askance_papers.reproduce.notes.theorem_7 import proved_rows
from askance_papers.reproduce.reproduction import Reproduction, Row, Setting
from askance_simulation.plots.style import ACCENT, INK, QUIET, plain
from askance_simulation.randomness import Seed, SeededWords

NAME = "local-vs-central"
D, ACCURACY, BETA = 8, Fraction(1, 5), Fraction(1, 20)
EPSILONS = ("0.1", "0.2", "0.5", "1", "2", "4", "8")
LEARNER = conjunctions(conjunctions_schema(D), ACCURACY)
TAU = float(ACCURACY / (2 * D))
TRUTH = [0.0] + [0.25] * (D - 1)  # P[x_i = 0, y = 1]: the target is x_0
_FEW = 0.02  # relative: the proof's draw is continuous, the oracle's is not


def reproduce(setting: Setting) -> Reproduction:
    """Return the same learner, tolerance and failure in both models."""
    trials = 20 if setting.quick else 300
    rows: list[Row] = []
    for epsilon in EPSILONS:
        seed = setting.seed / NAME / epsilon
        rows.append(local(epsilon, 10 * trials, seed / "local"))
        rows.append(central(epsilon, trials, seed / "central"))
        setting.progress(f"epsilon = {epsilon}")
    return Reproduction(
        name=NAME,
        source="KLNRS08, Lemma 4.3; notes, Theorem 7",
        statement=(
            "A statistical query of tolerance tau takes O(log(1/beta) / (eps^2 tau^2)) users in the"
            " local model, and O((1/(eps tau) + 1/tau^2) log(1/beta)) with a curator."
        ),
        differs_from_print=None,
        rows=tuple(rows),
        also=_grow_as_told(rows),
        notes=(
            f"Conjunctions of {D} fair bits, error {float(ACCURACY):g}: {D} questions of tolerance"
            f" {TAU:g}, beta = {float(BETA):g} for all together.",
            "A row holds if its answers are off by tau or more in no more of the trials than beta"
            " explains (1e-6). Besides, at small epsilon local users have to grow by 4 (within 5 %)"
            " as epsilon halves from 0.2, those of a curator by at most 2; local has to take more"
            " up to epsilon = 1, and neither much more than what is not private at 8.",
            "noise: size of the noise over what is claimed, from both sides (1e-6): of one bit per"
            " user, binomial; of a curator's counts, discrete Laplace draws of scale 1/epsilon (at"
            " epsilon = 8 nearly all are 0, and the ratio says little). Rows of a curator are those"
            " of the proof to 2 %.",
            "Local sizes are by exact tails, those of a curator and what is not private by"
            " Hoeffding's bound, as printed: from epsilon = 2 that is more than the difference.",
            "Local groups are fresh, as in the lemma; at epsilon = 8 the planner would ask all of"
            " them everything at epsilon = 1 each, which takes fewer.",
        ),
        draw=lambda figure: _draw(figure, rows),
    )


def local(epsilon: str, trials: int, seed: Seed) -> Row:
    """Return devices, with a fresh group per question."""
    batch = Batch(LEARNER.batch.questions, allocation=Allocation.FRESH)
    planned = plan_batch(batch, parse_epsilon(epsilon), float(BETA) / D)
    laws = [(1 - share, share) for share in TRUTH]
    told = round_answers(LEARNER.batch.questions, planned, laws, generator(seed), trials)
    off = sum(
        any(abs(answer.value - share) >= TAU for answer, share in zip(answers, TRUTH, strict=True))
        for answers in told
    )
    values = [[answer.value for answer in answers] for answers in told]
    sizes = [group.users for group in planned.groups]
    return _row(
        "local",
        epsilon,
        planned.users,
        off,
        trials,
        bit_noise(values, TRUTH, sizes, float(epsilon)),
    )


def central(epsilon: str, trials: int, seed: Seed) -> Row:
    """Return a curator with disjoint parts."""
    share = float(BETA) / D
    users = sum(central_rows(q, Fraction(epsilon), share) for q in LEARNER.batch.questions)
    words, people = SeededWords(seed / "words"), _Examples(seed)
    off, draws = 0, []
    for _ in range(trials):
        examples = people(users)
        oracle = CentralOracle(examples, epsilon, words, BETA, values=D)
        values = [answer.value for answer in oracle.answer(LEARNER.batch)]
        off += any(abs(v - t) >= TAU for v, t in zip(values, TRUTH, strict=True))
        rows = [part.rows for part in oracle.parts]
        draws.append(np.multiply(values, rows) - _counts(examples, rows))
    noise = laplace_noise(draws, 1 / float(epsilon))
    row = _row("central", epsilon, users, off, trials, noise)
    needed = D * proved_rows(float(epsilon), share, TAU)
    return {**row, "holds": row["holds"] and close(users, needed, _FEW)}


def _counts(examples: EncodedColumns, rows: Sequence[int]) -> list[int]:
    """Count [x_i = 0, y = 1] in the part of each question i: the parts follow each other."""
    word, labels = np.asarray(examples.values["x"][0]), np.asarray(examples.values["y"])
    ends = np.cumsum(rows)
    return [
        int(((word[end - size : end] >> i & 1 == 0) & (labels[end - size : end] == 1)).sum())
        for i, (end, size) in enumerate(zip(ends, rows, strict=True))
    ]


def not_private() -> int:
    """Compute Theorem 6's examples."""
    return D * ceil(log(2 * D / float(BETA)) / (2 * TAU * TAU))


class _Examples:
    """Fair bits, labelled by the first."""

    def __init__(self, seed: Seed) -> None:
        self._rng = generator(seed / "people")

    def __call__(self, rows: int) -> EncodedColumns:
        x = self._rng.integers(0, 2, (rows, D))
        return encode_columns(conjunctions_schema(D), {"x": x, "y": x[:, 0]})


def _grow_as_told(rows: Sequence[Row]) -> bool:
    users = {(row["model"], row["epsilon"]): row["users"] for row in rows}
    locals_, centrals = (
        [users[model, float(epsilon)] for epsilon in EPSILONS] for model in ("local", "central")
    )
    return (
        all(one > other for one, other in zip(locals_[:4], centrals[:4], strict=True))
        and abs(locals_[0] / locals_[1] / 4 - 1) < 0.05
        and centrals[0] / centrals[1] <= 2
        and max(locals_[-1], centrals[-1]) < 1.25 * not_private()
    )


def _row(model: str, epsilon: str, users: int, off: int, trials: int, noise: NoiseCheck) -> Row:
    return {
        "model": model,
        "epsilon": float(epsilon),
        "users": users,
        "users / not private": users / not_private(),
        "beta": float(BETA),
        "off": off / trials,
        "trials": trials,
        "noise": noise.ratio,
        "holds": noise.possible and not rate_exceeded(off, trials, float(BETA)),
    }


def _draw(figure: Any, rows: Sequence[Row]) -> None:
    axes = figure.subplots()
    plain(axes, f"Users for conjunctions of {D} bits", "ε", "users")
    for model, color in (("local", ACCENT), ("central", INK)):
        shown = [row for row in rows if row["model"] == model]
        epsilons = [row["epsilon"] for row in shown]
        axes.plot(epsilons, [row["users"] for row in shown], "o-", color=color, label=model)
    axes.axhline(not_private(), color=QUIET, ls="--", label="not private")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.legend(frameon=False)
