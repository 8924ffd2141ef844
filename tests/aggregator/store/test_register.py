"""The register of devices: one suite, on all stores."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from askance_aggregator.store import (
    Conclusion,
    EnrolmentRefused,
    RoundAnswers,
    SqliteStore,
    Store,
    StudyState,
    TaggedPopulation,
)
from askance_aggregator.store import register as register_module
from askance_aggregator.store.dialect import Execute, StatementAnswer
from askance_aggregator.store.register import (
    Affected,
    DeviceSelection,
    DeviceState,
    GatewayEntry,
    Register,
    RegisterCount,
    SeenDevices,
    SelectedCount,
    Silence,
    TokenEntry,
    UnknownDevice,
)
from askance_aggregator.store.tagged_population import MAX_TAGS, checked_tags
from askance_client.errors import InvalidParameter
from askance_client.messages import SignedStudy
from tests.aggregator.store.test_contract import STORES, TOKEN, devices, secret

T = TypeVar("T")
REVOKED, ACTIVE, FORGOTTEN = DeviceState.REVOKED, DeviceState.ACTIVE, DeviceState.FORGOTTEN
STUDY = bytes([5]) * 32


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made = STORES[request.param](request, tmp_path)
    made.enrol(devices(*range(6)))
    yield made
    made.close()


@pytest.fixture
def register(store: Store) -> Register:
    return store.register


def of(*numbers: int) -> DeviceSelection:
    return DeviceSelection(ids=tuple(b"device %d" % number for number in numbers))


def tagged(*tags: str) -> DeviceSelection:
    return DeviceSelection(tags=tags)


def listed(register: Register, *tags: str, after: int = -1, limit: int = 100) -> list[int]:
    return [entry.ordinal for entry in register.devices(tags, after, limit)]


class Planned:
    """Transactions of a connection that keep the plan of each statement."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.steps: list[tuple[str, str]] = []  # of statements

    def read(self, step: Callable[[Execute], T]) -> T:
        return step(self._execute)

    write = read

    def _execute(self, statement: str, parameters: Sequence[Any]) -> StatementAnswer:
        explained = self._connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
        self.steps += [(statement, detail) for *_, detail in explained]
        return self._connection.execute(statement, parameters)


class TestLists:
    def test_devices_are_listed_by_page_in_the_order_of_ordinals(self, register: Register) -> None:
        assert listed(register, limit=4) == [0, 1, 2, 3]
        assert listed(register, after=3, limit=4) == [4, 5]
        assert listed(register, after=5) == []

    def test_a_device_is_shown_with_all_but_its_token(self, store: Store) -> None:
        register = store.register
        store.enrol_with(devices(4, 7), TOKEN, 1, (b"gateway", secret(9)))
        register.tag(of(4), ["v2", "site=berlin"])
        register.note_seen([4, 5], 20_000)
        shown = register.show(b"device 4")
        assert (shown.device_id, shown.ordinal, shown.state) == (b"device 4", 4, ACTIVE)
        assert (shown.tags, shown.gateway) == (("site=berlin", "v2"), b"gateway")
        assert shown.seen_day == 20_000
        assert register.gateways() == [GatewayEntry(b"gateway", 1, ACTIVE, 2)]
        assert register.devices(limit=1)[0].seen_day is None

    def test_a_day_of_enrolment_is_todays(self, register: Register) -> None:
        days = {entry.enrolled_day for entry in register.devices()}
        today = int(time.time()) // 86_400
        assert days <= {today, today - 1}

    def test_a_call_of_an_earlier_day_changes_nothing(self, register: Register) -> None:
        register.note_seen([1], 20_001)
        register.note_seen([0, 1], 20_001)
        assert [entry.seen_day for entry in register.devices(limit=2)] == [20_001, 20_001]

    def test_the_software_of_the_last_call_is_kept(self, register: Register) -> None:
        register.note_seen([1, 2], 20_001, "askance-client/0.1.0")
        register.note_seen([2], 20_001, "askance-client/0.2.0")
        register.note_seen([1], 20_000, "other/1")  # of a process whose day ends later
        found = {one.ordinal: (one.seen_day, one.software) for one in register.devices(limit=3)}
        assert found[0] == (None, "")
        assert found[1] == (20_001, "other/1")
        assert found[2] == (20_001, "askance-client/0.2.0")
        register.note_seen([2], 20_002)  # an older device states none
        assert register.devices(limit=3)[2].software == ""

    def test_an_unknown_id_and_a_page_of_no_size_are_refused(self, register: Register) -> None:
        with pytest.raises(UnknownDevice, match="got 6e6f6e65"):
            register.show(b"none")
        with pytest.raises(InvalidParameter, match=r"limit: expected 1 to \d+, got 0"):
            register.devices(limit=0)

    def test_counts_are_right_when_the_first_and_the_last_are_forgotten(
        self, register: Register
    ) -> None:
        register.revoke(of(2, 3))
        register.forget(of(0, 3, 5))
        assert register.count() == RegisterCount(active=2, revoked=1, forgotten=3)


class TestPlans:
    """SQLite's plans: how many devices there are does not decide what a page costs."""

    @pytest.fixture
    def planned(self, tmp_path: Path) -> Iterator[Planned]:
        with closing(SqliteStore.create(tmp_path / "store")) as store:
            store.enrol(devices(*range(6)))
            store.register.tag(of(1, 2, 3), ["site=berlin", "v2"])
        with closing(sqlite3.connect(tmp_path / "store")) as connection:
            yield Planned(connection)

    @pytest.mark.parametrize("tags", [(), ("v2",), ("site=berlin", "v2")])
    def test_a_page_begins_at_its_place_in_an_index(
        self, planned: Planned, tags: tuple[str, ...]
    ) -> None:
        page = Register(planned).devices(tags, after=1, limit=2)
        assert [entry.ordinal for entry in page] == [2, 3]
        steps = [step for statement, step in planned.steps if "LIMIT" in statement]
        for step in steps:
            assert not step.startswith(("SCAN device", "USE TEMP B-TREE")), step
        assert any(step.endswith(("ordinal>?)", "rowid>?)")) for step in steps)

    def test_devices_are_counted_without_reading_them(self, planned: Planned) -> None:
        assert Register(planned).count() == RegisterCount(6, 0, 0)
        (scan,) = [step for _, step in planned.steps if step.startswith("SCAN devices")]
        assert scan.endswith("INDEX devices_revoked")


class TestTags:
    def test_devices_are_found_by_all_their_tags(self, register: Register) -> None:
        assert register.tag(of(0, 2, 4), ["site=berlin"]) == Affected(3)
        assert register.tag(of(2, 3, 4), ["v2"]) == Affected(3)
        assert listed(register, "site=berlin") == [0, 2, 4]
        assert listed(register, "v2", "site=berlin") == [2, 4]
        assert listed(register, "v2", "site=berlin", after=2) == [4]
        assert listed(register, "site=paris") == []

    def test_a_key_has_one_value(self, register: Register) -> None:
        register.tag(of(0, 1), ["site=berlin", "sites"])
        assert register.tag(tagged("site=berlin"), ["site=paris"], ["sites"]) == Affected(2)
        assert register.show(b"device 0").tags == ("site=paris",)

    def test_a_selecting_tag_can_be_removed(self, register: Register) -> None:
        register.tag(of(0, 1), ["a", "b", "c"])
        register.tag(tagged("a", "b"), remove=["a", "b"])
        assert register.show(b"device 1").tags == ("c",)

    def test_tags_past_the_limit_change_nothing(self, register: Register) -> None:
        register.tag(of(0), [f"t{number}" for number in range(MAX_TAGS)])
        with pytest.raises(InvalidParameter, match=r"more for .* ordinal 0;"):
            register.tag(of(0, 1), ["one-more"])
        assert listed(register, "one-more") == []

    @pytest.mark.parametrize(
        ("add", "remove", "found"),
        [
            (["site="], [], "'site='"),
            (["a b"], [], "'a b'"),
            ([], [], "got none"),
            (["a"], ["a"], "got both for 'a'"),
            (["site=a", "site=b"], [], "several for 'site'"),
        ],
    )
    def test_bad_tags_are_refused(
        self, register: Register, add: list[str], remove: list[str], found: str
    ) -> None:
        with pytest.raises(InvalidParameter, match=found):
            register.tag(of(0), add, remove)

    def test_tags_are_text_of_bounded_size(self) -> None:
        assert checked_tags(["v2", "site=eu/berlin:3", "v2"]) == ("v2", "site=eu/berlin:3")
        for tag in ("", "=a", "a" * 33, f"a={'b' * 65}", "a\n"):
            with pytest.raises(InvalidParameter, match="tag: expected"):
                checked_tags([tag])


class TestStates:
    def test_every_change_raises_the_standing(self, register: Register) -> None:
        first = register.standing()
        assert register.revoke(of(1, 3)) == Affected(2)
        second = register.standing()
        assert register.restore(of(3, 4)) == Affected(1)
        assert first < second < register.standing()
        found = register.changes(first)
        assert (dict(found.devices), found.number) == ({1: REVOKED, 3: ACTIVE}, register.standing())
        assert dict(register.changes(second).devices) == {3: ACTIVE}
        assert register.count() == RegisterCount(active=5, revoked=1, forgotten=0)

    def test_devices_are_revoked_by_tag(self, register: Register) -> None:
        register.tag(of(0, 1, 2), ["site=berlin"])
        assert register.revoke(tagged("site=berlin")) == Affected(3)
        assert register.revoke(tagged("site=berlin")) == Affected(0)
        states = [entry.state for entry in register.devices()]
        assert states == [REVOKED] * 3 + [ACTIVE] * 3

    @pytest.mark.parametrize(
        ("selection", "active", "revoked"),
        [
            (of(1, 2, 3), Affected(2), Affected(1)),
            (tagged("site=berlin"), Affected(2), Affected(1)),
            (tagged("nowhere"), Affected(0), Affected(0)),
            (DeviceSelection(ids=(b"device 0", b"gateway")), Affected(1, 0), Affected(0, 1)),
        ],
    )
    def test_a_selection_is_counted_by_state(
        self, store: Store, selection: DeviceSelection, active: Affected, revoked: Affected
    ) -> None:
        register = store.register
        store.enrol_with(devices(0), TOKEN, 10, gateway=(b"gateway", secret(9)))
        register.tag(of(1, 2, 3), ["site=berlin"], [])
        register.revoke(DeviceSelection(ids=(b"device 3", b"gateway")))
        assert register.count_selected(selection) == SelectedCount(active, revoked)
        assert register.revoke(selection) == active
        with pytest.raises(UnknownDevice):
            register.count_selected(of(77))

    def test_a_gateway_is_revoked_by_its_id(self, store: Store) -> None:
        store.enrol_with(devices(4), TOKEN, 1, (b"gateway", secret(9)))
        selection = DeviceSelection(ids=(b"gateway",))
        assert store.register.revoke(selection) == Affected(0, 1)
        assert dict(store.register.changes(0).gateways) == {1: REVOKED}
        assert store.register.gateways()[0].state is REVOKED
        assert store.register.restore(selection) == Affected(0, 1)

    @pytest.mark.parametrize("command", [Register.revoke, Register.restore, Register.forget])
    def test_an_unknown_id_changes_nothing(
        self, register: Register, command: Callable[..., Affected]
    ) -> None:
        with pytest.raises(UnknownDevice):
            getattr(register, command.__name__)(of(1, 99))
        assert register.count() == RegisterCount(6, 0, 0)

    def test_a_selection_is_by_ids_or_by_tags(self) -> None:
        for ids, tags in [((), ()), ((b"a",), ("b",))]:
            with pytest.raises(InvalidParameter, match="expected ids or tags"):
                DeviceSelection(ids, tags)
        with pytest.raises(InvalidParameter, match="at most 500 ids, got 501"):
            DeviceSelection(tuple(b"%d" % number for number in range(501)))


class TestForgetting:
    def test_a_forgotten_device_leaves_an_empty_place(self, store: Store) -> None:
        register = store.register
        register.tag(of(2, 5), ["v2"])
        assert register.forget(tagged("v2")) == Affected(2)
        assert (store.device(b"device 5"), store.population()) == (None, 6)
        assert listed(register) == [0, 1, 3, 4]
        assert dict(register.changes(0).devices) == {2: FORGOTTEN, 5: FORGOTTEN}
        assert register.count() == RegisterCount(4, 0, 2)

    def test_a_forgotten_id_enrols_as_a_new_user(self, store: Store) -> None:
        store.register.tag(of(5), ["v2"])
        store.register.forget(of(5))
        assert store.enrol(devices(5)) == range(6, 7)
        assert store.register.show(b"device 5").tags == ()
        assert store.enrol_with(devices(8), TOKEN, 1).new == 1
        assert listed(store.register, after=4) == [6, 7]


class TestStudysUsers:
    def test_users_are_fixed_at_the_first_call(self, register: Register) -> None:
        register.tag(of(0, 1, 3, 5), ["site=berlin"])
        register.revoke(of(3))
        assert register.fix_users(STUDY, ["site=berlin"]).tolist() == [0, 1, 5]
        register.restore(of(3))
        register.forget(of(5))
        assert register.fix_users(STUDY, ["site=berlin"]).tolist() == [0, 1, 5]
        again = register.fix_users(STUDY, ["site=berlin"], epoch=1)
        assert again.tolist() == [0, 1, 3]
        assert again.dtype == np.int64

    def test_tagged_devices_that_are_not_revoked_are_counted(self, register: Register) -> None:
        register.tag(of(0, 1, 3, 5), ["site=berlin"])
        register.tag(of(1, 2, 3), ["v2"])
        register.revoke(of(3))
        counts = [register.count_tagged(tags) for tags in (["v2"], ["v2", "site=berlin"], ["x"])]
        assert counts == [2, 1, 0]
        register.forget(of(4))
        assert register.count_tagged([]) == 4
        assert register.fixed_users(STUDY) is None
        users = register.fix_users(STUDY, ["v2"])
        fixed = register.fixed_users(STUDY)
        assert fixed is not None
        assert fixed.tolist() == users.tolist() == [1, 2]
        assert register.fixed_users(STUDY, epoch=1) is None

    def test_tags_are_kept_with_their_salt_and_the_first_stay(self, register: Register) -> None:
        kept = TaggedPopulation(("site=berlin", "v2"), bytes(range(32)))
        assert register.population(STUDY) is None
        register.keep_population(STUDY, kept)
        register.keep_population(STUDY, TaggedPopulation(("v2",), bytes(32)))
        assert register.population(STUDY) == kept
        assert register.population(bytes(32)) is None

    def test_users_go_with_the_reports_and_tags_with_the_results(self, store: Store) -> None:
        for digest in (STUDY, bytes(32)):
            store.add_study(digest, SignedStudy(digest, b"a key", b"a signature"))
            store.register.keep_population(digest, TaggedPopulation(("v2",), bytes(32)))
            store.register.fix_users(digest, ["v2"])
        store.conclude(STUDY, Conclusion(StudyState.DONE, "done", "", "{}"))
        store.retention.delete_reports(STUDY, 1)
        store.retention.remove_rows(STUDY, 100)
        assert store.register.fixed_users(STUDY) is None
        assert store.register.population(STUDY) is not None
        store.retention.delete_results(STUDY, 2)
        assert store.register.population(STUDY) is None
        assert store.register.fixed_users(bytes(32)) is not None
        assert store.register.population(bytes(32)) is not None

    def test_a_population_may_be_empty(self, register: Register) -> None:
        assert register.fix_users(STUDY, ["site=nowhere"]).tolist() == []


class TestDevicesThatAreAway:
    """Devices 0 to 5 are enrolled today; what they call afterwards is noted by hand."""

    def test_users_are_those_that_have_called_lately(self, register: Register) -> None:
        today = enrolled_day(register)
        register.tag(of(0, 1, 2), ["v2"])
        register.note_seen([0, 1, 3], today + 40)
        register.note_seen([4], today + 39)
        register.revoke(of(3))
        assert register.count_tagged([], today) == 5
        assert register.count_tagged([], today + 39) == 3
        assert register.count_tagged([], today + 40) == 2
        assert register.count_tagged([], today + 41) == 0
        assert register.count_tagged(["v2"], today + 1) == 2
        assert register.fix_users(STUDY, [], since_day=today + 39).tolist() == [0, 1, 4]
        assert register.fix_users(STUDY, ["v2"], 1, today + 1).tolist() == [0, 1]
        register.note_seen([5], today + 40)
        assert register.fix_users(STUDY, [], since_day=today + 39).tolist() == [0, 1, 4]

    def test_a_device_lapses_with_all_that_names_it(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(register_module, "_READ_AT_ONCE", 4)
        register, today = store.register, enrolled_day(store.register)
        register.tag(of(0, 1), ["v2"])
        register.note_seen([1, 4], today + 100)
        register.revoke(of(2))
        before = register.standing()
        assert list(register.lapse(today)) == []
        assert register.standing() == before
        assert list(register.lapse(today + 100)) == [2, 1]  # of the first four, and of the others
        assert listed(register) == [1, 2, 4]
        assert register.show(b"device 2").state is REVOKED  # its id stays refused
        assert store.find_devices([b"device 0", b"device 3", b"device 5"]) == [None] * 3
        assert listed(register, "v2") == [1]
        assert dict(register.changes(before).devices) == dict.fromkeys((0, 3, 5), FORGOTTEN)
        assert register.count() == RegisterCount(2, 1, 3)
        assert list(register.lapse(today + 100)) == []

    def test_days_on_which_any_device_has_called_are_counted_back(self, store: Store) -> None:
        register = store.register
        assert register.called_day(2**31, 0) is None
        for day, callers in ((20_003, [1, 4]), (20_001, [0]), (20_003, [2]), (20_002, [])):
            register.note_seen(callers, day)
        assert [register.called_day(20_003, back) for back in (0, 1, 2)] == [20_003, 20_001, None]
        assert register.called_day(20_002, 0) == 20_001

    def test_a_call_or_an_enrolment_takes_back_days_that_come_later(self, store: Store) -> None:
        """A clock was wrong. The next day may be that of another process."""
        register, today = store.register, enrolled_day(store.register)

        def called() -> list[int]:
            days = (register.called_day(2**31, back) for back in range(9))
            return [day for day in days if day is not None]

        for later in (0, 10, 20, 30):
            register.note_seen([0], today + later)
        register.note_seen([1], today + 19)
        assert called() == [today + 20, today + 19, today + 10, today]
        register.note_seen([], today - 9)
        store.enrol_with(devices(5), TOKEN, 9)  # known already
        assert len(called()) == 4
        store.enrol_with(devices(5, 6), TOKEN, 9)
        assert called() == [today]
        register.note_seen([0], today + 7)
        store.enrol(devices(7))
        assert called() == [today]

    def test_an_ordinal_is_not_given_again(self, store: Store) -> None:
        today = enrolled_day(store.register)
        assert sum(store.register.lapse(today + 1)) == 6
        assert store.enrol(devices(0)) == range(6, 7)

    def test_a_device_without_a_noted_day_does_not_lapse(self, store: Store) -> None:
        """Days were not noted before; that of its next call is."""
        forget_days = "UPDATE devices SET enrolled_day = NULL WHERE ordinal = 0"
        store.register._transactions.write(lambda execute: execute(forget_days, ()))
        assert sum(store.register.lapse(2**31)) == 5
        assert listed(store.register) == [0]
        assert store.register.count_tagged([], 0) == 0


def enrolled_day(register: Register) -> int:
    """The day of the first device's enrolment."""
    day = register.devices(limit=1)[0].enrolled_day
    assert day is not None
    return day


class TestTokens:
    def test_devices_get_the_tags_of_their_token(self, store: Store) -> None:
        store.register.keep_token(TOKEN, 10, 2_000, ["v2", "site=oslo"])
        assert store.register.tokens()[0].tags == ("site=oslo", "v2")
        store.enrol_with(devices(7, 8), TOKEN, 10)
        store.enrol_with(devices(9), bytes(16), 1)
        store.register.tag(of(7), ["site=rome"])
        store.enrol_with(devices(7, 10), TOKEN, 10)  # one of them is known: its tags stay
        found = store.register.devices([], 5, 10)
        assert [entry.tags for entry in found] == [
            ("site=rome", "v2"),
            ("site=oslo", "v2"),
            (),
            ("site=oslo", "v2"),
        ]

    @pytest.mark.parametrize(
        ("tags", "told"),
        [
            (["site=a", "site=b"], "tags: expected one value per key, got several for 'site'"),
            (["a b"], "tag: expected WORD or KEY=VALUE"),
        ],
    )
    def test_tags_that_a_device_may_not_have_are_refused(
        self, store: Store, tags: list[str], told: str
    ) -> None:
        with pytest.raises(InvalidParameter, match=re.escape(told)):
            store.register.keep_token(TOKEN, 10, 2_000, tags)
        assert store.register.tokens() == []

    def test_issued_and_used_tokens_are_listed(self, store: Store) -> None:
        other = bytes(16)
        store.register.keep_token(TOKEN, 10, 2_000)
        store.enrol_with(devices(7, 8), TOKEN, 10)
        store.enrol_with(devices(9), other, 1)
        assert store.register.tokens() == [
            TokenEntry(TOKEN, 2, 10, 2_000, revoked=False),
            TokenEntry(other, 1, None, None, revoked=False),
        ]

    def test_a_revoked_token_enrols_none(self, store: Store) -> None:
        store.register.keep_token(TOKEN, 10, 2_000)
        store.enrol_with(devices(7), TOKEN, 10)
        store.register.revoke_token(TOKEN)
        with pytest.raises(EnrolmentRefused, match="got a revoked one"):
            store.enrol_with(devices(8), TOKEN, 10)
        with pytest.raises(EnrolmentRefused, match="got a revoked one"):
            store.enrol_with(devices(7), TOKEN, 10)  # nor does it move a device to a gateway
        assert store.device(b"device 8") is None
        assert store.device(b"device 7") is not None
        assert store.register.tokens() == [TokenEntry(TOKEN, 1, 10, 2_000, revoked=True)]

    def test_an_unknown_token_is_refused(self, register: Register) -> None:
        with pytest.raises(UnknownDevice, match="enrolment token: expected"):
            register.revoke_token(bytes(16))


@pytest.mark.parametrize("at_once", [2, 20_000])
def test_devices_are_counted_by_their_last_call_and_by_tag(
    at_once: int, register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(register_module, "_READ_AT_ONCE", at_once)
    for number, day in enumerate((100, 94, 93, 71, 70)):  # and the sixth has never called
        register.note_seen([number], day)
    register.tag(of(0, 1, 2), ["north"])
    register.tag(of(4, 5), ["v2", "south"])
    register.revoke(of(2))
    assert register.seen(100, 2) == (
        SeenDevices("", devices=5, today=1, week=2, month=3, never=1),
        SeenDevices("north", devices=2, today=1, week=2, month=2, never=0),
        SeenDevices("south", devices=2, today=0, week=0, month=0, never=1),
    )
    assert [row.tag for row in register.seen(100, 9)] == ["", "north", "south", "v2"]
    found = {pair for part in register.tagged() for pair in part}
    assert ("south", 5) in found
    assert len(found) == 7


def test_a_day_without_software_leaves_the_software_as_it_is(register: Register) -> None:
    register.note_seen([1], 10, "a/1")
    register.note_seen([0, 1], 11, None)
    register.note_seen([1], 9, None)  # of a process whose day ends later
    shown = register.devices(limit=2)
    assert [(one.seen_day, one.software) for one in shown] == [(11, ""), (11, "a/1")]


def test_completion_is_kept_by_round_until_results_are_deleted(store: Store) -> None:
    register, study = store.register, STUDY.hex()[:16]
    store.add_study(STUDY, SignedStudy(b"a study", b"a key", b"a signature"))
    first = [RoundAnswers(study, 0, 0, "", 6, 4, 0), RoundAnswers(study, 0, 0, "north", 2, 1, 0)]
    register.note_completion(STUDY, first)
    register.note_completion(STUDY, [RoundAnswers(study, 0, 0, "", 6, 5, 0)])  # it stays
    second = RoundAnswers(study, 0, 1, "", 5, 5, 0)
    register.note_completion(STUDY, [second])
    assert register.completion(9) == [second, *first]
    assert register.completion(1) == [second]
    store.conclude(STUDY, Conclusion(StudyState.DONE, "done", "", "{}"))
    store.retention.delete_results(STUDY, 1)
    assert register.completion(9) == []


def test_silence_is_written_as_csv() -> None:
    found = Silence(
        seen=(SeenDevices("", 9, 4, 5, 6, 1), SeenDevices("a,b", 2, 0, 1, 2, 0)),
        rounds=(RoundAnswers("ab" * 8, 3, 1, "", 9, 4, 2),),
        closed=(RoundAnswers("cd" * 8, 0, 0, "north", 5, 5, 0),),
    )
    assert found.to_csv() == (
        "about,study,epoch,round,tag,devices,answered,silent,away,today,week,month,never\n"
        "last call,,,,,9,,,,4,5,6,1\n"
        'last call,,,,"a,b",2,,,,0,1,2,0\n'
        "open round,abababababababab,3,1,,9,4,2,3,,,,\n"
        "closed round,cdcdcdcdcdcdcdcd,0,0,north,5,5,,,,,,\n"
    )
