"""Course of a repeated study: users, budgets and loss over all epochs."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from askance_aggregator.composition import Advanced, EventCounts, Optimal, Pure
from askance_aggregator.encoding import encode_request
from askance_aggregator.families import randomized_response
from askance_aggregator.learners import frequency
from askance_aggregator.planning import StudyPlan, plan
from askance_aggregator.queries import predicate
from askance_aggregator.studies import Course, OwnerBudgets
from askance_client.codec import decode_report, digest_of
from askance_client.device import Device, Policy
from askance_client.errors import InvalidParameter
from askance_client.messages import Refusal, Repeat, Request
from askance_client.queries import Category, Schema

if TYPE_CHECKING:
    from tests.aggregator.studies.conftest import World

NAT = 10**9
DAY = 86_400
LABELS = Schema("labels", 1, colour=Category(("red", "green")))


@pytest.fixture(scope="module")
def half() -> StudyPlan:
    """Return a plan of one epoch of half a nat."""
    return plan(frequency(LABELS.colour, tau="0.1"), NAT // 2, Fraction(1, 10), n_users=10**6)


def test_the_loss_of_all_epochs_is_the_sum_of_theirs(half: StudyPlan) -> None:
    course = Course(half, 7, 12)
    assert course.nano_nats <= NAT // 2
    assert course.total(12) == pytest.approx(12 * course.nano_nats / NAT)
    found = course.to_json()
    assert (found["epochs_answered"], found["first_refused"]) == (12, {})
    assert found["users_per_epoch"] == half.users_needed
    assert found["epochs_per_user"] == pytest.approx(12 * half.users_needed / 10**6)
    assert found["epsilon_at_delta"] is None


def test_with_a_delta_it_is_the_least_composition(half: StudyPlan) -> None:
    delta = Fraction(1, 10**6)
    course = Course(half, 7, 100, delta=delta)
    loss = Fraction(course.nano_nats, NAT)
    totals = EventCounts({Pure(loss): 100})
    best = min(each.epsilon(totals, delta) for each in (Advanced(), Optimal()))
    assert course.composed(100) <= best < course.total(100)
    assert course.composed(1) <= course.total(1) + 1e-9
    advanced = math.sqrt(2 * math.log(1e6) * 100 * loss**2)
    assert course.composed(100) < advanced + 100 * loss * math.tanh(loss / 2)


@pytest.mark.parametrize(
    ("owner", "answered", "refused"),
    [
        ({"life": 4}, (0, 1, 2, 3), {"life": 4}),
        ({"study": 2}, (0, 1), {"study": 2}),
        ({"window": 2, "window_days": 21}, (0, 1, 3, 4, 6, 7), {"window": 2}),
        ({"window": 2, "window_days": 14}, tuple(range(9)), {}),
        ({"window": 2, "window_days": 21, "life": 3}, (0, 1, 3), {"window": 2, "life": 4}),
        ({"life": 0}, (), {"life": 0}),
    ],
)
def test_it_says_when_an_owners_budgets_end_as_a_device_refuses(
    world: World,
    half: StudyPlan,
    owner: dict[str, int],
    answered: tuple[int, ...],
    refused: dict[str, int],
) -> None:
    """The same budgets on a device, which is asked at the same time of every epoch."""
    cost = Course(half, 7, 9).nano_nats
    given = {name: n if name == "window_days" else n * cost for name, n in owner.items()}
    course = Course(half, 7, 9, OwnerBudgets(**given))
    assert (course.answered, course.first_refused) == (answered, refused)
    assert answers_of_a_device(world, given, cost) == answered


def answers_of_a_device(world: World, given: dict[str, Any], cost: int) -> tuple[int, ...]:
    """Return the epochs, from 0, that a device with these budgets answers."""
    from dataclasses import replace

    from askance_aggregator.encoding import sign_study
    from askance_client.codec import decode_study
    from askance_client.device import Examiner
    from askance_simulation.fleets.memory_ledger import MemoryLedger
    from tests.aggregator.studies.conftest import KEY

    repeat = Repeat(7, 9, 2_900)
    terms = decode_study(world.study(budget=cost).study)
    signed = sign_study(replace(terms, repeat=repeat, expires_unix_s=1 << 40), KEY)
    clock = [0]
    policy = Policy(
        frozenset({signed.public_key}),
        given.get("life", 1 << 60),
        study_nano_nats=given.get("study"),
        window_nano_nats=given.get("window"),
        window_days=given.get("window_days", 30),
        refresh_days=7,
    )
    device = Device(
        schema=world.schema,
        record=world.population.columns(0, 1).record(0),
        policy=policy,
        ledger=MemoryLedger(),
        coins=world.devices().coins.at(0),
        now_s=lambda: clock[0],
        examiner=Examiner(),
    )
    assert device.introduce(signed) is None
    randomizer, found = randomized_response(cost), []
    assert randomizer.loss.nano_nats <= cost
    question = predicate(world.schema["b"] == 1)
    for place, epoch in enumerate(repeat.indices):
        clock[0] = epoch * 7 * DAY + 3
        payload = encode_request(
            Request(digest_of(signed.study), 0, 0, question, randomizer, epoch)
        )
        if not isinstance(decode_report(device.answer(payload)).outcome, Refusal):
            found.append(place)
    return tuple(found)


@pytest.mark.parametrize(("every", "epochs"), [(0, 1), (1, 0), (-7, 3)])
def test_a_course_has_an_epoch_of_a_day_at_least(half: StudyPlan, every: int, epochs: int) -> None:
    with pytest.raises(InvalidParameter, match="expected 1 or more, got"):
        Course(half, every, epochs)
    with pytest.raises(InvalidParameter, match="delta: expected"):
        Course(half, 7, 1, delta=Fraction(1))
