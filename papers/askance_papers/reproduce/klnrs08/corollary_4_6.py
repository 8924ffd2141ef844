"""KLNRS08, Corollary 4.6: PARITY is learned with a curator, and not from statistical queries.

The learner here asks the best queries there are. With 2 k bits u of x and the others v, the query
y (-1)^(<s,v> + B(u)), B(u) = u_0 u_1 + u_2 u_3 + .., has correlation 2^-k with each of the 4^k
parities whose mask on v is s, and none with the others: Parseval's 1/tau^2 for tau = 2^-k. So the
lower bound is met to the last concept, and what is measured is held against it from both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator import learners
from askance_aggregator.oracles import LazyOracle, Oracle, ParityWorld, learn
from askance_aggregator.planning import RoundPlan, plan_batch
from askance_aggregator.queries import parity, real, where
from askance_client.accounting import parse_epsilon
from askance_client.queries import Query, Schema
from askance_papers.curator.parity import (
    PrivateParity,
    examples_needed,
    runs_needed,
    sharper_keeping,
)
from askance_papers.reproduce.checks import rate_between, rate_exceeded
from askance_papers.reproduce.counting import generator, round_answers
from askance_papers.reproduce.klnrs08 import parity as curators
from askance_papers.reproduce.reproduction import Reproduction, Row, Setting
from askance_simulation.plots.style import (
    ACCENT,
    BAD,
    INK,
    across,
    legend_beside,
    logarithmic,
    plain,
)
from askance_simulation.randomness import Seed

NAME = "corollary-4.6"
EPSILON, BETA = "1", Fraction(1, 20)
_COARSER = Fraction(101, 100)  # of a tolerance: just above a correlation, which then stays hidden
_GROWTH = (6.0, 14.0)  # of users from d to d + 3: 2^3 times what a logarithm adds


@dataclass(frozen=True, slots=True)
class BentCase:
    """A number of bits, and what a learner may ask.

    Args:
        d: bits of x; the parities are 2^d.
        k: half of the bits on which the queries are bent.
        queries: how many of the 2^(d - 2k) masks s it asks about.
        tau: of each query.
    """

    what: str
    d: int
    k: int
    queries: int
    tau: Fraction

    @property
    def bound(self) -> float:
        """Share of the parities that so many queries can tell from nothing, at most."""
        return float(min(self.queries / self.tau**2 / 2**self.d, 1))

    @property
    def hidden(self) -> bool:
        """Return whether the tolerance is above a correlation, which then no answer shows."""
        return self.tau > Fraction(1, 2**self.k)

    @property
    def least_wrong(self) -> float:
        """Share of the parities that no learner finds, by the lower bound."""
        return max(1 - self.bound - 2 ** (-self.d / 2), 0.0)

    @property
    def most_wrong(self) -> float:
        """Share of the parities that this learner may miss: 2^(-d/2) more than the lower bound."""
        return min(self.least_wrong + 2 ** (-self.d / 2), 1.0)

    def holds_for_all(self, wrong: int, concepts: int) -> bool:
        """Return whether the lower bound is met, and attained to 2^(-d/2), by all concepts."""
        return self.least_wrong <= wrong / concepts <= self.most_wrong

    def holds_for_draws(self, wrong: int, draws: int) -> bool:
        """Return whether the same is possible for independent draws of concepts (at 1e-6)."""
        return rate_between(wrong, draws, self.least_wrong, self.most_wrong)


def cases(d: int) -> list[BentCase]:
    """Return the cases for d bits, d a multiple of 3."""
    k, tau = d // 3, Fraction(1, 2 ** (d // 3))
    few = d.bit_length() - 1
    polynomial = BentCase("polynomial", d, few, d, Fraction(1, 2**few))
    return [
        BentCase("as printed", d, k, 2**k, tau),
        BentCase("half of it", d, k, 2**k // 2, tau),
        BentCase("1 % coarser", d, k, 2**k, tau * _COARSER),
        *([polynomial] if d < 2 ** (d - 2 * few) else []),
    ]


def reproduce(setting: Setting) -> Reproduction:
    """Run the learner under the lazy oracle and on devices, and the curator's learner."""
    ds = (6, 9, 12) if setting.quick else (6, 9, 12, 15)
    limit, trials = (128, 50) if setting.quick else (4096, 1000)
    rows: list[Row] = []
    curators_loss = enumerated_loss()
    for d in ds:
        world = ParityWorld(d)
        for case in cases(d):
            rows.append(queried(case, world, limit, setting.seed / NAME / f"{d} {case.what}"))
        rows.append(local(world, d, trials, setting.seed / NAME / f"{d} devices"))
        rows.append(central(d, curators_loss, trials, setting.seed / NAME / f"{d} curator"))
        setting.progress(f"d = {d}")
    return Reproduction(
        name=NAME,
        source="KLNRS08, Corollary 4.6, with Theorem 3.8 and the lower bound of Blum et al. 1994",
        statement=(
            "PARITY is learned privately with a curator and not locally: 2^(d/3) statistical"
            " queries of tolerance 2^(-d/3) do not learn it, even over uniform x, so local learners"
            " need 2^(Omega(d)) users. LI is a strict subset of CNI."
        ),
        differs_from_print=(
            "The numbers are the bound's edge: a query tells at most 1/tau^2 parities from nothing,"
            " so q queries leave a mean error of (1 - q/(tau^2 2^d) - 2^(-d/2))/2, which is nothing"
            " at q = 2^(d/3), tau = 2^(-d/3). There the learner below does learn PARITY, by 2^(d/3)"
            " + 2d/3 queries. With half as many it fails on half of the parities, with any"
            " polynomial number at polynomial tolerance on nearly all."
        ),
        rows=tuple(rows),
        also=growth_holds(rows),
        notes=(
            "SQ: the lazy oracle says what fair labels would, wherever that is within tau; every"
            " answer is checked to be within tau of the truth. 'told' counts the parities for which"
            " some answer differs, over all 2^d of them by the queries' transforms; it is q/(tau^2"
            " 2^d) itself. 'error' is the mean over concepts (all, or a random sample), between the"
            " lower bound and 2^(-d/2)/2 more; where nothing is told, one mask is concluded for all"
            " concepts, and wrong for all others.",
            f"devices: the same learner on local devices at epsilon = {EPSILON}, tolerances"
            f" 2^(-d/3)/2, beta = {float(BETA):g}, planned; and on as many users as the curator"
            " takes. curator: A* at the same epsilon, its loss enumerated.",
            "Users of devices grow 6 to 14 times from one d to the next (3 bits), the curator's"
            " less than twice.",
        ),
        draw=lambda figure: _draw(figure, rows),
    )


def growth_holds(rows: Sequence[Row]) -> bool:
    """Return whether users grow exponentially on devices, and linearly with a curator."""
    devices = [row["users"] for row in rows if row["what"] == "devices"]
    curator = [row["users"] for row in rows if row["what"] == "curator"]
    least, most = _GROWTH
    fast = all(least <= b / a <= most for a, b in pairwise(devices))
    slow = all(1 < b / a <= 2 for a, b in pairwise(curator))
    return fast and slow


def bent_learner(schema: Schema, case: BentCase) -> learners.Adaptive[int]:
    """Make the learner: which s answers, then the bits of u by shifts of the bent function."""
    # Shifted by a, the query's correlation has the sign (-1)^B(r_u + a); a unit vector e_j as a
    # changes B by the bit beside r_j. Where nothing answers it concludes the mask 0.
    asked = [learners.Question(query, case.tau) for query in first_queries(schema, case)]
    # The same queries are asked of many concepts: they are built once.
    shifted: dict[int, learners.Batch] = {}

    @learners.adaptive("bent", version=1)
    def bent(schema: Schema) -> learners.Learning[int]:
        first = yield learners.Batch(asked)
        s = max(range(case.queries), key=lambda place: abs(first[place].value))
        if s not in shifted:
            shifts = shifted_queries(schema, case, s)
            shifted[s] = learners.Batch([learners.Question(query, case.tau) for query in shifts])
        found = yield shifted[s]
        return concluded(case, s, first, found)

    return bent(schema)


def first_queries(schema: Schema, case: BentCase) -> list[Query]:
    """Build the first round: the bent function beside every s that is asked about."""
    return [bent_query(schema, case, s << 2 * case.k) for s in range(case.queries)]


def shifted_queries(schema: Schema, case: BentCase, s: int) -> list[Query]:
    """Build the second round: the bent function shifted by every unit vector, beside one s."""
    return [bent_query(schema, case, s << 2 * case.k | 1 << j) for j in range(2 * case.k)]


def concluded(case: BentCase, s: int, first: learners.Answers, found: learners.Answers) -> int:
    """Return the mask that the answers lead to."""
    own = int(first[s].value < 0)
    u = sum((int(answer.value < 0) ^ own) << (j ^ 1) for j, answer in enumerate(found))
    return s << 2 * case.k | u


def bent_query(schema: Schema, case: BentCase, mask: int) -> Query:
    """Build y (-1)^(<mask,x> + B(u)); u are the first 2k bits of x."""
    bits = list(schema["x"])
    pairs = [bits[j] & bits[j + 1] for j in range(0, 2 * case.k, 2)]
    terms = [schema["y"] == "-1", *pairs]
    if mask:
        terms.append(parity(schema["x"], [mask >> j & 1 for j in range(case.d)]))
    return real(where(reduce(lambda one, other: one != other, terms), -1, 1), -1, 1)


@dataclass(slots=True)
class Watched:
    """Oracle whose answers are compared with the truth: the largest error, in parts of tau."""

    oracle: Oracle
    truth: Oracle
    off: Fraction = Fraction(0)

    def answer(self, batch: learners.Batch) -> learners.Answers:
        """The oracle's answers."""
        answers, truths = self.oracle.answer(batch), self.truth.answer(batch)
        for question, answer, true in zip(batch.questions, answers, truths, strict=True):
            error = abs(Fraction(answer.value) - Fraction(true.value))
            self.off = max(self.off, error / question.working_tau)
        return answers


def queried(case: BentCase, world: ParityWorld, limit: int, seed: Seed) -> Row:
    """Run the learner against the lazy oracle of many concepts."""
    met_by: Callable[[int, int], bool]
    masks, met_by = np.arange(world.size), case.holds_for_all
    if world.size > limit:
        masks, met_by = generator(seed).integers(0, world.size, limit), case.holds_for_draws
    learner, fair = bent_learner(world.schema, case), world.fair()
    wrong, off = 0, Fraction(0)
    for mask in masks.tolist():
        truth = world.labelled_by(mask)
        watched = Watched(LazyOracle(truth, fair), truth)
        wrong += learn(learner, watched) != mask
        off = max(off, watched.off)
    told = told_share(case, world)
    if case.hidden:  # all concepts look alike, so that one mask is concluded for all of them
        met = told == 0 and wrong == int(np.count_nonzero(masks != learn(learner, fair)))
    else:
        met = told == case.bound and met_by(wrong, len(masks))
    return _row("SQ", case.what, case.d) | {
        "queries": case.queries + 2 * case.k,
        "tau": float(case.tau),
        "told": told,
        "at most": case.bound,
        "concepts": len(masks),
        "error": wrong / len(masks) / 2,
        "at least": case.least_wrong / 2,
        "holds": off < 1 and met,
    }


def told_share(case: BentCase, world: ParityWorld) -> float:
    """Compute the share of parities that any query of the first round tells from fair labels."""
    told = np.zeros(world.size, np.bool_)
    for query in first_queries(world.schema, case):
        told |= world.spectrum(learners.Question(query, case.tau)).above(case.tau)
    return float(told.mean())


def local(world: ParityWorld, d: int, trials: int, seed: Seed) -> Row:
    """Run the learner on local devices, at the planned size and at the curator's."""
    k = d // 3
    case = BentCase("devices", d, k, 2 ** (d - 2 * k), Fraction(1, 2 ** (k + 1)))
    first, second = planned_rounds(world, case)
    users = first.users + second.users
    failed = failures(world, case, (first, second), trials, seed)
    few = examples(d)
    share = Fraction(few, users)
    fewer = failures(world, case, (_shrunk(first, share), _shrunk(second, share)), trials, seed / 1)
    return _row("LI", case.what, d) | {
        "queries": len(first.groups) + len(second.groups),
        "tau": float(case.tau),
        "at most": float(BETA),
        "concepts": trials,
        "error": failed / trials / 2,
        "users": users,
        "failed": failed / trials,
        "failed, curator's users": fewer / trials,
        "holds": not rate_exceeded(failed, trials, float(BETA))
        and rate_exceeded(fewer, trials, float(BETA)) == (few < users),
    }


def planned_rounds(world: ParityWorld, case: BentCase) -> tuple[RoundPlan, RoundPlan]:
    """Plan both rounds with fresh groups; every s has the same sizes."""
    asked, shifted = first_queries(world.schema, case), shifted_queries(world.schema, case, 0)
    share = float(BETA) / (len(asked) + len(shifted))
    first, second = (
        plan_batch(
            learners.Batch(
                [learners.Question(query, case.tau) for query in queries],
                allocation=learners.Allocation.FRESH,
            ),
            parse_epsilon(EPSILON),
            share,
        )
        for queries in (asked, shifted)
    )
    return first, second


def failures(
    world: ParityWorld, case: BentCase, plans: tuple[RoundPlan, RoundPlan], trials: int, seed: Seed
) -> int:
    """Count the trials, each with a parity of its own, in which another one is concluded."""
    rng = generator(seed)
    masks = rng.integers(0, world.size, trials)
    wanted = masks.tolist()
    asked = first_queries(world.schema, case)
    firsts = _answered(world, case, asked, plans[0], masks, rng)
    found = np.array([max(range(case.queries), key=lambda s: abs(one[s].value)) for one in firsts])
    failed = 0
    for s in np.unique(found).tolist():
        mine = np.flatnonzero(found == s)
        shifted = shifted_queries(world.schema, case, s)
        seconds = _answered(world, case, shifted, plans[1], masks[mine], rng)
        failed += sum(
            concluded(case, s, firsts[trial], answers) != wanted[trial]
            for trial, answers in zip(mine.tolist(), seconds, strict=True)
        )
    return failed


def examples(d: int) -> int:
    """Return the curator's number of users at the same epsilon and beta."""
    keep = PrivateParity.amplified(EPSILON, BETA).keep
    return examples_needed(d, keep, curators.ERROR, BETA)


def enumerated_loss() -> Row:
    """Enumerate the loss of A*; the row does not hold unless it is epsilon itself."""
    case = curators.LossCase("sharper", sharper_keeping, Fraction(EPSILON), runs_needed(BETA))
    return curators.loss_row(case)


def central(d: int, loss: Row, trials: int, seed: Seed) -> Row:
    """Run A* at the size for its failure, with an enumerated loss."""
    row = curators.failure_row(d, 1, trials, seed)
    return _row("CNI", "curator", d) | {
        "at most": float(BETA),
        "concepts": trials,
        "error": row["measured"] / 2,
        "users": row["n"],
        "failed": row["measured"],
        "holds": loss["holds"] and row["holds"] and row["n"] == examples(d),
    }


def _answered(
    world: ParityWorld,
    case: BentCase,
    queries: Sequence[Query],
    planned: RoundPlan,
    masks: NDArray[np.int64],
    rng: np.random.Generator,
) -> list[learners.Answers]:
    """Draw a round's answers of devices, for each of many concepts."""
    questions = [learners.Question(query, case.tau) for query in queries]
    laws = []
    for question in questions:
        found = world.spectrum(question)
        ones = (1 + (found.constant + found.correlations[masks]) / found.scale) / 2
        laws.append(np.stack((1 - ones, ones), axis=1))
    return round_answers(questions, planned, laws, rng, len(masks))


def _shrunk(planned: RoundPlan, share: Fraction) -> RoundPlan:
    """Return the plan with this share of its users."""
    groups = tuple(
        replace(group, users=max(int(group.users * share), 1)) for group in planned.groups
    )
    return replace(planned, groups=groups)


def _row(model: str, what: str, d: int) -> dict[str, Any]:
    return {
        "model": model,
        "what": what,
        "d": d,
        "queries": None,
        "tau": None,
        "told": None,
        "at most": None,
        "concepts": None,
        "error": None,
        "at least": None,
        "users": None,
        "failed": None,
        "failed, curator's users": None,
    }


_LINES = (
    ("1 % coarser", "D-", "tolerance 1 % coarser"),
    ("polynomial", "^-", "polynomially many"),
    ("half of it", "s-", "half of the printed"),
    ("as printed", "o-", "as many as printed"),
)
"""A row's case, and its line and name in the picture, from the top down."""


def _draw(figure: Any, rows: Sequence[Row]) -> None:
    figure.set_size_inches(12, 4)
    left, right = figure.subplots(1, 2)
    plain(left, "PARITY under the lazy oracle", "bits d", "mean error")
    for what, style, label in _LINES:
        shown = [row for row in rows if row["what"] == what]
        ds = [row["d"] for row in shown]
        left.plot(ds, [row["error"] for row in shown], style, color=INK, label=label)
        left.plot(ds, [row["at least"] for row in shown], "--", color=BAD)
    left.plot([], [], "--", color=BAD, label="lower bound of each")
    left.set_ylim(-0.02, 0.55)
    legend_beside(left)
    plain(right, f"Users at ε = {EPSILON}", "bits d", "users")
    for what, color in (("devices", BAD), ("curator", ACCENT)):
        shown = [row for row in rows if row["what"] == what]
        ds = [row["d"] for row in shown]
        right.plot(ds, [row["users"] for row in shown], "o-", color=color, label=what)
    right.set_yscale("log")
    logarithmic(right)
    legend_beside(right)
    for axes in (left, right):
        across(axes.xaxis, sorted({row["d"] for row in rows}))
    figure.tight_layout()
