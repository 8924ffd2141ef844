"""From a round's closing to the operator's account: each answer once, before its tally is shown."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from askance.cli.aggregator.status import outer_line
from askance_aggregator.amplification import Curve
from askance_aggregator.amplification.account import OuterAccount, TallyRelease
from askance_aggregator.amplification.ends import local_curve
from askance_aggregator.amplification.outer import delta_for
from askance_aggregator.encoding import encode_randomizer, question_digest
from askance_aggregator.families import best_for
from askance_aggregator.queries import predicate
from askance_aggregator.server.studies import OuterCounter, outer_statements
from askance_aggregator.server.studies.outer_statements import LEAST_ANSWERS
from askance_aggregator.store import OuterRelease, SqliteStore, Store
from askance_aggregator.studies.transcript import Asked, Closed, Header, Transcript
from askance_client.device.examination import _question
from askance_client.errors import StoreError
from askance_client.messages import Repeat
from askance_client.queries import Integer, Schema
from askance_client.randomizers import Randomizer
from tests.aggregator.server.studies.conftest import RunIn
from tests.aggregator.store.test_contract import FIRST, STUDY, store
from tests.faults.deployment import Deployment
from tests.faults.people import PEOPLE, Setup

BIT = best_for(2, 10**9)
__all__ = ["store"]

ENCODED = encode_randomizer(BIT).SerializeToString(deterministic=True)


async def answered(deployment: Deployment) -> None:
    for phone in deployment.phones:
        await phone.check_in()
        await phone.check_in()
    await deployment.settle()


def test_a_round_is_released_with_its_question_and_its_users(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        await deployment.submit(0)
        await answered(deployment)
        await deployment.submit(1)  # the same question, in another study
        await answered(deployment)
        (_, first), (_, second) = deployment.disk.store.outer.releases()
        assert first.question == second.question
        assert first.request != second.request
        assert first.users.tolist() == second.users.tolist() == [0, 1, 2, 3, 4, 5]
        assert (first.again.tolist(), second.again.tolist()) == ([], [0, 1, 2, 3, 4, 5])

    run_in(scenario, Setup(PEOPLE.schema, PEOPLE.users, PEOPLE.plans))


@pytest.mark.parametrize("repeat", [None, Repeat(every_days=7, first=3, epochs=4)])
def test_the_digest_of_a_question_is_the_one_that_devices_freeze_it_under(
    repeat: Repeat | None,
) -> None:
    schema = Schema("people", 1, age=Integer(0, 120))
    query = predicate(schema["age"] > 40)
    epoch = 0 if repeat is None else 5
    on_device = _question(query.digest(schema) + BIT.canonical, repeat, epoch)
    assert question_digest(query, schema, BIT, repeat, epoch) == on_device


class Computed:
    """Curve of a twentieth of the local epsilon, and how often one was computed."""

    def __init__(self) -> None:
        self.answers: list[int] = []

    def __call__(self, randomizer: Randomizer, answers: int) -> Curve:
        self.answers.append(answers)
        return Curve((0.0, 0.05, 1.0), (0.02, 0.0, 0.0))


def release(number: int, users: int) -> OuterRelease:
    digests = bytes([number]) * 32, bytes([50 + number]) * 32
    return OuterRelease(*digests, ENCODED, np.arange(users), np.empty(0, np.int64))


def test_a_counter_goes_on_where_another_process_stopped(tmp_path: Path) -> None:
    with closing(SqliteStore.create(tmp_path / "store")) as store:
        store.enrol((f"d{n}".encode(), bytes(32)) for n in range(300))
        store.add_study(FIRST, STUDY)
        compute = Computed()
        counter = OuterCounter(store, compute)
        assert counter.count() == 0
        store.outer.record(FIRST, [release(1, 200)], delta_for)
        assert (counter.count(), counter.count()) == (1, 0)
        assert compute.answers == [198]
        figures = store.outer.figures()
        assert figures is not None
        assert (figures["users"], figures["releases"], figures["epsilon"]) == (
            *(200, 1),
            pytest.approx(0.05, rel=1e-4),
        )

        store.outer.record(FIRST, [release(2, 300)], delta_for)
        later = OuterCounter(store, compute)  # of a new process: it goes on from what is kept
        assert later.count() == 1
        assert compute.answers == [198, 296]  # 297 are rounded down; the first was kept
        figures = store.outer.figures()
        assert figures is not None
        assert (figures["users"], figures["local_only"]) == (300, 0)
        assert figures["epsilon"] == pytest.approx(0.1, rel=1e-4)
        assert figures["median"] == pytest.approx(0.1, rel=1e-4)


HISTORY = (
    # question, users, those of them who say that they had answered
    (50, range(300), ()),
    (51, range(100, 300), ()),
    (50, range(200), range(200)),  # a division, maybe by a look at the first tally
    (52, range(64), range(5)),  # five had answered before the account
    (50, range(300), range(1, 300)),  # user 0 has lost its ledger
    (51, range(300), range(100, 300)),
    (50, range(120), range(120)),
)


def history() -> list[OuterRelease]:
    return [
        OuterRelease(
            *(bytes([number]) * 32, bytes([question]) * 32, ENCODED),
            *(np.array(list(ordinals), np.int64) for ordinals in (users, again)),
        )
        for number, (question, users, again) in enumerate(HISTORY, start=1)
    ]


def uninterrupted(releases: Sequence[OuterRelease]) -> dict[str, object]:
    """Return the figures of an account that has entered all of them in one process."""

    def curves(randomizer: Randomizer, answers: int) -> Curve:
        return local_curve(1.0) if answers < LEAST_ANSWERS else Computed()(randomizer, answers)

    account = OuterAccount(Fraction(1, 10**6), curves=curves)
    for one in releases:
        account.enter(TallyRelease(one.question, BIT, one.users, one.again))
    return asdict(account.figures(300))


@pytest.mark.parametrize("counters", [1, 2])
def test_replicas_and_restarts_state_what_one_process_does(store: Store, counters: int) -> None:
    """After each release another counter goes on, or a new one: there is one account."""
    store.enrol((f"d{n}".encode(), bytes(32)) for n in range(300))
    store.add_study(FIRST, STUDY)
    replicas = [OuterCounter(store, Computed()) for _ in range(counters)]
    for number, one in enumerate(history(), start=1):
        store.outer.record(FIRST, [one], delta_for)
        counter = replicas[number % 2] if counters == 2 else OuterCounter(store, Computed())
        assert counter.count() == 1
        assert store.outer.figures() == uninterrupted(history()[:number])
    assert [replica.count() for replica in replicas] == [0] * counters
    assert uninterrupted(history())["epsilon"] != uninterrupted(history()[:1])["epsilon"]


def test_of_two_replicas_that_count_at_once_one_is_counted(store: Store) -> None:
    store.enrol((f"d{n}".encode(), bytes(32)) for n in range(300))
    store.add_study(FIRST, STUDY)
    other = OuterCounter(store, Computed())
    counts: list[int] = []

    class Overtaken(Computed):
        def __call__(self, randomizer: Randomizer, answers: int) -> Curve:
            if not counts:  # a release comes, and the other replica counts both
                store.outer.record(FIRST, history()[1:2], delta_for)
                counts.append(other.count())
            return super().__call__(randomizer, answers)

    store.outer.record(FIRST, history()[:1], delta_for)
    assert OuterCounter(store, Overtaken()).count() == 0
    assert counts == [2]
    assert store.outer.figures() == uninterrupted(history()[:2])


def test_a_state_of_other_rules_is_not_gone_on_from(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.enrol((f"d{n}".encode(), bytes(32)) for n in range(300))
    store.add_study(FIRST, STUDY)
    store.outer.record(FIRST, history(), delta_for)
    assert OuterCounter(store, Computed()).count() == len(HISTORY)
    monkeypatch.setattr(outer_statements, "ACCOUNT_VERSION", outer_statements.ACCOUNT_VERSION + 1)
    assert OuterCounter(store, Computed()).count() == len(HISTORY)
    assert store.outer.figures() == uninterrupted(history())


def test_a_round_that_closes_again_is_counted_by_the_users_that_it_has_now(tmp_path: Path) -> None:
    """A replica that had counted it goes on; an answer had become durable meanwhile."""
    with closing(SqliteStore.create(tmp_path / "store")) as store:
        store.enrol((f"d{n}".encode(), bytes(32)) for n in range(301))
        store.add_study(FIRST, STUDY)
        store.outer.record(FIRST, [release(1, 200), release(2, 300)], delta_for)
        counter = OuterCounter(store, Computed())
        assert counter.count() == 2
        store.outer.record(FIRST, [release(2, 301)], delta_for)
        assert counter.count() == 2
        figures = store.outer.figures()
    assert figures is not None
    assert (figures["releases"], figures["users"]) == (2, 301)


def test_a_curve_of_an_earlier_accountant_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(SqliteStore.create(tmp_path / "store")) as store:
        store.enrol((f"d{n}".encode(), bytes(32)) for n in range(200))
        store.add_study(FIRST, STUDY)
        store.outer.record(FIRST, [release(1, 200)], delta_for)
        compute = Computed()
        OuterCounter(store, compute).count()
        OuterCounter(store, compute).count()
        assert compute.answers == [198]
        monkeypatch.setattr(outer_statements, "CURVES_VERSION", outer_statements.CURVES_VERSION + 1)
        OuterCounter(store, compute).count()
        assert compute.answers == [198, 198]


def test_after_a_fault_all_releases_are_entered_anew(tmp_path: Path) -> None:
    """The release in which it failed may be entered in part."""
    stopping = threading.Event()

    class Failing(Computed):
        def __call__(self, randomizer: Randomizer, answers: int) -> Curve:
            counter.wake()
            found = super().__call__(randomizer, answers)
            if len(self.answers) == 2:
                raise ArithmeticError("a curve that does not converge")
            if len(self.answers) == 3:
                stopping.set()
            return found

    with closing(SqliteStore.create(tmp_path / "store")) as store:
        store.enrol((f"d{n}".encode(), bytes(32)) for n in range(300))
        store.add_study(FIRST, STUDY)
        store.outer.record(FIRST, [release(1, 200), release(2, 300)], delta_for)
        counter = OuterCounter(store, Failing())
        counter.run(stopping)
        figures = store.outer.figures()
    assert figures is not None
    assert (figures["releases"], figures["users"]) == (2, 300)
    assert figures["epsilon"] == pytest.approx(0.1, rel=1e-4)


def test_every_page_of_releases_is_counted(tmp_path: Path) -> None:
    with closing(SqliteStore.create(tmp_path / "store")) as store:
        store.enrol((f"d{n}".encode(), bytes(32)) for n in range(10))
        store.add_study(FIRST, STUDY)
        store.outer.record(FIRST, [release(number, 10) for number in range(1, 67)], delta_for)
        assert OuterCounter(store).count() == 66  # 64 are read at a time
        figures = store.outer.figures()
        assert figures is not None
        assert (figures["releases"], figures["questions"]) == (66, 66)


def test_no_tally_is_published_that_the_account_cannot_have(
    run_in: RunIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(deployment: Deployment) -> None:
        store = deployment.disk.store
        record, held = store.outer.record, []

        def failing_once(
            study: bytes, releases: Sequence[OuterRelease], rule: Callable[[int], Fraction]
        ) -> None:
            held.append([type(event) for event in Transcript(store.log(study)).recorded])
            if len(held) == 1:
                raise StoreError("the disk is full")
            record(study, releases, rule)

        monkeypatch.setattr(store.outer, "record", failing_once)
        await deployment.submit(0)
        await answered(deployment)
        assert held == [[Header, Asked], [Header, Asked]]
        assert Closed in map(type, Transcript(store.log(deployment.digest(0))).recorded)
        assert store.outer.number() == 1

    run_in(scenario, Setup(PEOPLE.schema, PEOPLE.users, PEOPLE.plans))


def test_few_answers_have_the_local_epsilon_and_no_curve_is_computed(tmp_path: Path) -> None:
    with closing(SqliteStore.create(tmp_path / "store")) as store:
        store.enrol((f"d{n}".encode(), bytes(32)) for n in range(40))
        store.add_study(FIRST, STUDY)
        compute = Computed()
        store.outer.record(FIRST, [release(1, 40)], delta_for)
        OuterCounter(store, compute).count()
        figures = store.outer.figures()
        assert figures is not None
        assert (figures["epsilon"], figures["local_only"], compute.answers) == (None, 40, [])


def test_the_local_curve_is_that_of_randomized_response() -> None:
    """(e - 1) / (e + 1) = .46211715726 at epsilon 0."""
    curve = local_curve(1.0)
    assert curve.epsilons == (0.0, 1.0)
    assert list(curve.deltas) == pytest.approx([0.46211715726, 0.0])


def test_the_status_states_the_account_rounded_upward() -> None:
    figures = {
        "users": 5_000,
        "releases": 2,
        "epsilon": 0.03512,
        "median": 0.035,
        "delta": 1e-06,
        "local_only": 1,
        "late": False,
        "waiting": 3,
        "began_unix_s": 1_700_000_000,
    }
    assert outer_line(figures) == (
        "towards readers of tallies: 5,000 users of 2 tallies since 2023-11-14T22:13:20Z, epsilon"
        " at most 0.0352, for half of them at most 0.035, at delta 1e-06; 1 user with the local"
        " epsilon alone; 3 not counted yet"
    )
    alone = outer_line(figures | {"epsilon": None, "waiting": 0})
    assert alone.endswith("since 2023-11-14T22:13:20Z, the local epsilons alone")
