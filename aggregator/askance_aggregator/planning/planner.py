"""Planner: from a learner, a budget and a tolerance to groups of users; no user is asked."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from numbers import Integral
from typing import Any, TypeVar

from askance_aggregator import learners
from askance_aggregator.planning.plans import RoundPlan, StudyPlan
from askance_aggregator.planning.precision import AT_ONCE, RoundRules
from askance_aggregator.planning.sizing import Sizing, even, size_batch
from askance_client.errors import InvalidParameter, PlanRefused
from askance_client.printable import value_text

MAX_ROUNDS = 10_000
_TOLERANCES = ("tau", "accuracy")  # parameters of learners

NOISE_BETA = 0.01  # of a question that is sized for its variance, which does not depend on it

T = TypeVar("T")


def plan(
    learner: learners.Learner[Any],
    nano_nats: int,
    beta: Fraction | float,
    n_users: int | None = None,
    rules: RoundRules = AT_ONCE,
) -> StudyPlan:
    """Size every round of a learner before any user is asked.

    Settings that the learner was not given and has a rule for are set first (`settled`).
    The learner is rehearsed: its generator is run with neutral answers (zeros, or the possible
    value nearest to zero; or the learner's own `rehearsal`) to see its batches. A learner whose
    batches depend on the answers may ask others when it is run: each real batch is planned again,
    by `plan_batch`, and the sum of users may differ. It may not ask for more values than the
    rehearsal: an oracle stops it (`PlanExceeded`), for beta is divided over the rehearsed values.

    Utility: with probability at least 1 - beta every value of every answer is off by less than its
    question's tau: each value gets beta / (number of values in all rounds), the shares of a
    category together that of all of them. Every user is in one round. Users that no tolerance
    claims (tau = None) are divided over rounds evenly by the groups of such questions, and within a
    round in proportion to what a group needs for 1/20 of its range; without a population they are
    sized for that.

    Args:
        learner: what will ask.
        nano_nats: each user's whole budget; > 0.
        beta: the probability of failure, in (0, 1).
        n_users: the population; None: as large as it needs to be.
        rules: how its rounds are planned.

    Raises:
        InvalidParameter: a number is out of range, or no randomizer spends such a budget.
        PlanRefused: the rehearsal does not come to an end, there are fewer users than
            `least_answers`, or a question would cost less than devices answer.
    """
    _check_beta(beta)
    _check_users(n_users, rules.least_answers)
    chosen = settled(learner, nano_nats, beta, n_users, rules)
    batches = rehearse(chosen)
    values = sum(batch.values for batch in batches)
    each = float(beta) / max(values, 1)
    rounds = _rounds(batches, nano_nats, each, n_users, rules)
    needed = sum(planned.users for planned in rounds)
    feasible = n_users is None or needed <= n_users
    reason = None if feasible else _reason(needed, n_users, rounds, rules.least_answers, learner)
    return StudyPlan(
        feasible,
        needed,
        n_users,
        rounds,
        reason,
        float(beta),
        each,
        nano_nats,
        values,
        tuple(sorted(_fields_of(chosen, batches))),
        _settings(learner, chosen),
        least_answers=rules.least_answers,
    )


def settled(
    learner: learners.Learner[T],
    nano_nats: int,
    beta: Fraction | float,
    n_users: int | None = None,
    rules: RoundRules = AT_ONCE,
    *,
    signing: bool = False,
) -> learners.Learner[T]:
    """Return the learner with the settings that it was not given, for these conditions.

    A parameter that was not given is settled before any user is asked, from these arguments alone
    and from no record, so a replayed study settles as the first run did. A learner without a rule,
    or with nothing open, is returned unchanged, and so is one whose rule finds that nothing can be
    planned with this budget: the study's own plan then raises the error.

    The arguments are those of `plan`, but without `n_users` the population is not known; with
    `signing` a study is being made, whose population will be known later.
    """
    at_once = RoundRules(rules.design)

    def noise(question: learners.Question) -> float:
        sizing = size_batch(learners.Batch([question]), nano_nats, NOISE_BETA, at_once)
        return sizing.planned(None).n_variance

    def tolerance(question: learners.Question, users: int, values: int) -> float:
        sizing = size_batch(learners.Batch([question]), nano_nats, float(beta) / values, rules)
        return sizing.planned(users).tau

    def needed(option: learners.Learner[Any]) -> int | None:
        try:
            made = plan(option, nano_nats, beta, None, rules)
        except (InvalidParameter, PlanRefused):
            return None
        return made.users_needed

    return learner.settled(learners.Conditions(n_users, noise, tolerance, needed, signing))


def _rounds(
    batches: Sequence[learners.Batch],
    nano_nats: int,
    beta: float,
    n_users: int | None,
    rules: RoundRules,
) -> tuple[RoundPlan, ...]:
    """Size each batch, and divide over the rounds the users that no tolerance claims."""
    sized = {  # a batch that is rehearsed in several rounds is sized once
        batch: size_batch(batch, nano_nats, beta, rules) for batch in dict.fromkeys(batches)
    }
    sizes = [sized[batch] for batch in batches]
    shares = zip(sizes, _allowances(sizes, n_users), strict=True)
    return tuple(size.planned(allowance) for size, allowance in shares)


def _reason(
    needed: int,
    n_users: int | None,
    rounds: Sequence[RoundPlan],
    least_answers: int,
    learner: learners.Learner[Any],
) -> str:
    counts = f"the plan needs {needed:,} users, the population has {n_users:,}"
    return f"{counts}{_least(rounds, least_answers)}: {_advice(learner)}"


def _least(rounds: Sequence[RoundPlan], least_answers: int) -> str:
    """Say that `least_answers` makes a group larger, if it does."""
    sizes = {group.users for planned in rounds for group in planned.groups}
    if least_answers > 1 and least_answers in sizes:
        return f"; least_answers asks for {least_answers:,} in every group of a round"
    return ""


def _advice(learner: learners.Learner[Any]) -> str:
    """Say which changes make a plan smaller; a tolerance only if the learner has one to change."""
    changes = ["a larger epsilon", "fewer or smaller fields"]
    changes += [
        f"{name} above {learner.parameters[name]}"
        for name in _TOLERANCES
        if name in learner.parameters
    ]
    return f"it needs fewer with {', '.join(changes[:-1])}, or {changes[-1]}"


def fields_needed(learner: learners.Learner[Any]) -> frozenset[str]:
    """Return the fields that a learner's questions may use.

    They are the fields that its rehearsal asks about and, where later questions depend on answers,
    the fields that its arguments name.
    """
    return _fields_of(learner, rehearse(learner))


def _fields_of(learner: learners.Learner[Any], batches: Sequence[learners.Batch]) -> frozenset[str]:
    asked = (question.query for batch in batches for question in batch.questions)
    return learner.fields_named.union(*(query.fields_used for query in asked))


def plan_batch(
    batch: learners.Batch,
    nano_nats: int,
    beta_per_value: float,
    n_users_left: int | None = None,
    rules: RoundRules = AT_ONCE,
) -> RoundPlan:
    """Size one batch; the same inputs give the same plan.

    FRESH takes the sum of what the questions need at the full budget, SPLIT the greatest need at
    parts of the budget, GROUPED the sum over cohorts of a few questions (`sizing`); the batch's
    own choice is kept, else the smallest wins, a tie is FRESH, then SPLIT. Questions with an open
    tolerance count here as if they had asked for 1/20 of their range; then their cohorts get what
    `n_users_left` (`StudyPlan.allowance`; None: any number) leaves after the others, in proportion
    to what they count. A plan that takes more users than are left cannot be carried out.
    """
    _check_beta(beta_per_value)
    sizing = size_batch(batch, nano_nats, beta_per_value, rules)
    return sizing.planned(n_users_left)


def rehearse(learner: learners.Learner[Any]) -> tuple[learners.Batch, ...]:
    """Collect the batches that a learner asks when all answers are neutral."""
    batches: list[learners.Batch] = []
    run = learner.run()
    try:
        batch = next(run)
        while True:
            batches.append(learners.check_batch(batch, learner.name))
            if len(batches) > MAX_ROUNDS:
                raise PlanRefused(f"{learner.name} asked more than {MAX_ROUNDS} batches unanswered")
            if learner.rehearsal is None:
                answers = tuple(learners.neutral_answer(question) for question in batch.questions)
            else:
                answers = learners.check_answers(batch, learner.rehearsal(batch))
            batch = run.send(answers)
    except StopIteration:
        return tuple(batches)
    finally:
        run.close()


def _allowances(sizes: Sequence[Sizing], n_users: int | None) -> Sequence[int | None]:
    """Compute each round's users: its claim, and its part of unclaimed users; None: as needed."""
    if n_users is None:
        return [None] * len(sizes)
    groups = sum(size.open_groups for size in sizes)
    left = max(n_users - sum(size.claimed for size in sizes), 0)
    shares = iter(even(left, groups) if groups else ())
    return [size.claimed + sum(next(shares) for _ in range(size.open_groups)) for size in sizes]


def _settings(learner: learners.Learner[Any], chosen: learners.Learner[Any]) -> dict[str, str]:
    """Return the parameters that a learner was not given, with the values that were chosen."""
    given = learner.parameters
    return {name: text for name, text in chosen.parameters.items() if given.get(name) != text}


def _check_users(n_users: int | None, least_answers: int) -> None:
    if n_users is None:
        return
    if isinstance(n_users, bool) or not isinstance(n_users, Integral) or n_users < 0:
        raise InvalidParameter(f"n_users: expected 0 or more, got {value_text(n_users)}")
    if least_answers > n_users:
        raise PlanRefused(
            f"least_answers: expected at most {n_users:,}, the number of users, got"
            f" {least_answers:,}"
        )


def _check_beta(beta: Fraction | float) -> None:
    if not 0 < beta < 1:
        raise InvalidParameter(f"beta expects a probability in (0, 1), got {value_text(beta)}")
