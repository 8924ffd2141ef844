"""Contract of every store: one suite, on all of them."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from askance_aggregator.store import (
    MAX_EVIDENCE,
    AskedRequest,
    CertificateHolder,
    Conclusion,
    Deadline,
    Enrolled,
    EnrolledDevice,
    EnrolledGateway,
    EnrolmentRefused,
    EpochEntry,
    OpenRounds,
    RoundNote,
    SqliteStore,
    Store,
    StoredCertificate,
    StoredReport,
    StudyEntry,
    StudyQuery,
    StudyState,
    store_location,
)
from askance_aggregator.store.register import DeviceSelection
from askance_client.errors import StoreError
from askance_client.messages import AckStatus, SignedStudy
from tests.postgresql import PostgresqlServer

ACCEPTED, DUPLICATE, CONFLICT = AckStatus.ACCEPTED, AckStatus.DUPLICATE, AckStatus.CONFLICT
FIRST, SECOND, THIRD = (bytes([number]) * 32 for number in (1, 2, 3))
TOKEN = bytes(range(16))
STUDY = SignedStudy(b"a study", b"a key", b"a signature")


def _in_memory(request: pytest.FixtureRequest, folder: Path) -> Store:
    return SqliteStore.in_memory()


def _in_a_database(request: pytest.FixtureRequest, folder: Path) -> Store:
    server: PostgresqlServer = request.getfixturevalue("postgresql")
    return store_location(server.new_store()).open()


STORES = {"sqlite": _in_memory, "postgresql": _in_a_database}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made = STORES[request.param](request, tmp_path)
    yield made
    made.close()


def secret(number: int) -> bytes:
    return hashlib.sha256(bytes([number])).digest()


def devices(*numbers: int) -> list[tuple[bytes, bytes]]:
    return [(b"device %d" % number, secret(number)) for number in numbers]


class TestDevices:
    def test_ordinals_follow_the_order_of_enrolment(self, store: Store) -> None:
        assert store.population() == 0
        assert store.enrol(devices(5, 3)) == range(2)
        assert store.enrol(devices(9)) == range(2, 3)
        assert store.population() == 3
        assert store.device(b"device 5") == EnrolledDevice(0, secret(5))
        assert store.device(b"device 3") == EnrolledDevice(1, secret(3))
        assert store.device(b"device 9") == EnrolledDevice(2, secret(9))

    def test_an_unknown_device_is_none(self, store: Store) -> None:
        assert store.device(b"device 1") is None

    def test_many_are_found_in_the_order_asked(self, store: Store) -> None:
        store.enrol(devices(5, 3))
        found = store.find_devices([b"device 3", b"device 1", b"device 5", b"device 3"])
        assert found == [
            EnrolledDevice(1, secret(3)), None, EnrolledDevice(0, secret(5)),
            EnrolledDevice(1, secret(3)),
        ]  # fmt: skip
        assert store.find_devices([]) == []
        assert store.acknowledged_sequences([]) == []
        assert store.acknowledged_sequences([1, 7, 0]) == [0, 0, 0]

    def test_nobody_is_no_error(self, store: Store) -> None:
        assert len(store.enrol([])) == 0

    @pytest.mark.parametrize(
        "refused",
        [
            devices(7, 1),  # enrolled already
            devices(7, 8, 7),  # twice in one call
            [*devices(7), (b"", secret(0))],
            [*devices(7), (bytes(65), secret(0))],
            [*devices(7), (b"device 8", b"no digest")],
        ],
    )
    def test_all_are_enrolled_or_none(
        self, store: Store, refused: list[tuple[bytes, bytes]]
    ) -> None:
        store.enrol(devices(1))
        with pytest.raises(StoreError, match=r"^enrolment: expected"):
            store.enrol(refused)
        assert store.population() == 1
        assert store.device(b"device 7") is None
        assert store.enrol(devices(7)) == range(1, 2)

    def test_an_error_never_shows_an_id_or_a_digest(self, store: Store) -> None:
        store.enrol(devices(1))
        with pytest.raises(StoreError) as caught:
            store.enrol(devices(1))
        assert "device 1" not in str(caught.value)
        assert secret(1).hex() not in str(caught.value)


class TestStudies:
    def test_studies_come_back_in_the_order_they_were_added(self, store: Store) -> None:
        other = SignedStudy(b"another", b"key", b"signature")
        store.add_study(SECOND, STUDY)
        store.add_study(FIRST, other)
        assert list(store.studies().items()) == [(SECOND, STUDY), (FIRST, other)]

    def test_the_same_study_again_changes_nothing(self, store: Store) -> None:
        store.add_study(FIRST, STUDY)
        store.log(FIRST).append("line")
        store.add_study(FIRST, STUDY)
        assert store.studies() == {FIRST: STUDY}
        assert list(store.log(FIRST).lines()) == ["line"]

    def test_another_under_its_digest_is_refused(self, store: Store) -> None:
        store.add_study(FIRST, STUDY)
        with pytest.raises(StoreError, match="expected no other"):
            store.add_study(FIRST, SignedStudy(STUDY.study, STUDY.public_key, b"another"))
        assert store.studies() == {FIRST: STUDY}

    def test_a_digest_has_32_bytes(self, store: Store) -> None:
        with pytest.raises(StoreError):
            store.add_study(b"short", STUDY)
        assert store.studies() == {}

    def test_each_study_has_its_own_transcript(self, store: Store) -> None:
        store.add_study(FIRST, STUDY)
        store.add_study(SECOND, STUDY)
        store.log(FIRST).append("one")
        store.log(SECOND).append("other")
        store.log(FIRST).append("two\nlines, ümlaut")
        assert list(store.log(FIRST).lines()) == ["one", "two\nlines, ümlaut"]
        assert list(store.log(SECOND).lines()) == ["other"]

    def test_lines_are_as_they_were_when_asked_for(self, store: Store) -> None:
        store.add_study(FIRST, STUDY)
        log = store.log(FIRST)
        log.append("one")
        lines = log.lines()
        log.append("two")
        assert list(lines) == ["one"]

    def test_a_long_transcript_is_whole_and_in_order(self, store: Store) -> None:
        store.add_study(FIRST, STUDY)
        lines = [*map(str, range(300)), *(f"{n} " + "ü" * 150_000 for n in range(5)), "", "end"]
        for line in lines:
            store.log(FIRST).append(line)
        assert list(store.log(FIRST).lines()) == lines

    def test_no_transcript_without_a_study(self, store: Store) -> None:
        with pytest.raises(StoreError, match="expected a stored one"):
            store.log(FIRST)


class TestLeafKeys:
    def test_the_first_key_stays(self, store: Store) -> None:
        store.add_study(FIRST, STUDY)
        store.add_study(SECOND, replace(STUDY, study=b"another"))
        assert store.leaf_key(FIRST) is None
        assert store.keep_leaf_key(FIRST, b"a" * 32) == b"a" * 32
        assert store.keep_leaf_key(FIRST, b"b" * 32) == b"a" * 32
        assert store.keep_leaf_key(SECOND, b"b" * 32) == b"b" * 32
        assert (store.leaf_key(FIRST), store.leaf_key(SECOND)) == (b"a" * 32, b"b" * 32)

    def test_no_key_without_its_study_or_of_another_length(self, store: Store) -> None:
        with pytest.raises(StoreError, match="study"):
            store.keep_leaf_key(FIRST, bytes(32))
        store.add_study(FIRST, STUDY)
        with pytest.raises(StoreError, match="leaf key: expected 32 bytes, got 31"):
            store.keep_leaf_key(FIRST, bytes(31))
        assert store.leaf_key(FIRST) is None


class TestReports:
    def test_a_report_counts_once_by_request_and_user(self, store: Store) -> None:
        assert store.accept([StoredReport(FIRST, 4, b"yes")]) == [ACCEPTED]
        assert store.accept([StoredReport(FIRST, 4, b"yes")]) == [DUPLICATE]
        assert store.accept([StoredReport(FIRST, 4, b"no")]) == [CONFLICT]
        assert store.accept([StoredReport(SECOND, 4, b"no")]) == [ACCEPTED]
        assert store.accept([StoredReport(FIRST, 5, b"no")]) == [ACCEPTED]
        assert list(store.reports(FIRST)) == [(4, b"yes"), (5, b"no")]
        assert list(store.reports(SECOND)) == [(4, b"no")]

    def test_within_one_batch_too_and_in_its_order(self, store: Store) -> None:
        batch = [
            StoredReport(FIRST, 1, b"a"),
            StoredReport(FIRST, 1, b"b"),
            StoredReport(FIRST, 1, bytes(bytearray(b"a"))),
            StoredReport(FIRST, 0, b"b"),
        ]
        assert store.accept(batch) == [ACCEPTED, CONFLICT, DUPLICATE, ACCEPTED]
        assert list(store.reports(FIRST)) == [(0, b"b"), (1, b"a")]

    def test_the_very_object_again_is_a_duplicate(self, store: Store) -> None:
        report = StoredReport(FIRST, 1, b"a")
        assert store.accept([report, report]) == [ACCEPTED, DUPLICATE]

    def test_an_empty_batch(self, store: Store) -> None:
        assert store.accept([]) == []

    def test_reports_come_in_the_order_of_ordinals(self, store: Store) -> None:
        ordinals = [(7919 * place) % 10_007 for place in range(9_000)]
        store.accept([StoredReport(FIRST, ordinal, b"%d" % ordinal) for ordinal in ordinals])
        assert list(store.reports(FIRST)) == [(n, b"%d" % n) for n in sorted(ordinals)]

    def test_one_users_report(self, store: Store) -> None:
        store.accept([StoredReport(FIRST, 1, b"a")])
        assert store.report(FIRST, 1) == b"a"
        assert store.report(FIRST, 2) is None
        assert store.report(SECOND, 1) is None

    def test_an_unknown_request_has_no_reports(self, store: Store) -> None:
        assert list(store.reports(FIRST)) == []
        assert list(store.evidence(FIRST)) == []

    def test_conflicts_are_kept_as_evidence_the_first_few(self, store: Store) -> None:
        store.accept([StoredReport(FIRST, 1, b"accepted")])
        others = [b"other %d" % number for number in range(MAX_EVIDENCE + 3)]
        for other in others:
            assert store.accept([StoredReport(FIRST, 1, other)]) == [CONFLICT]
            assert store.accept([StoredReport(FIRST, 1, other)]) == [CONFLICT]
        kept = [(1, other) for other in others[:MAX_EVIDENCE]]
        assert list(store.evidence(FIRST)) == kept
        assert list(store.reports(FIRST)) == [(1, b"accepted")]

    @pytest.mark.parametrize(
        "refused", [StoredReport(b"short", 0, b"x"), StoredReport(FIRST, -1, b"x")]
    )
    def test_a_batch_is_stored_whole_or_not_at_all(
        self, store: Store, refused: StoredReport
    ) -> None:
        with pytest.raises(StoreError):
            store.accept([StoredReport(FIRST, 0, b"good"), refused])
        assert list(store.reports(FIRST)) == []

    def test_threads_may_share_it_and_each_report_counts_once(self, store: Store) -> None:
        statuses: list[AckStatus] = []

        def deliver(step: int) -> None:
            for place in range(200):
                report = StoredReport(FIRST, (place * step) % 200, b"same")
                statuses.extend(store.accept([report]))

        threads = [threading.Thread(target=deliver, args=(step,)) for step in (1, 3, 7)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert statuses.count(ACCEPTED) == 200
        assert statuses.count(DUPLICATE) == 400
        assert [ordinal for ordinal, _ in store.reports(FIRST)] == list(range(200))


def test_a_reader_of_many_reports_does_not_hold_up_a_writer(store: Store) -> None:
    store.accept([StoredReport(FIRST, ordinal, b"x") for ordinal in range(5_000)])
    reading = store.reports(FIRST)
    next(reading)
    done: list[Callable[[], object] | list[AckStatus]] = []
    writer = threading.Thread(
        target=lambda: done.append(store.accept([StoredReport(SECOND, 0, b"y")]))
    )
    writer.start()
    writer.join(60)
    assert done == [[ACCEPTED]]


class TestCertificates:
    DEVICE, GATEWAY = CertificateHolder(0, 3), CertificateHolder(3)

    def test_each_is_found_by_its_fingerprint(self, store: Store) -> None:
        """A gateway and a device with the same number are two holders."""
        of_device = StoredCertificate(self.DEVICE, 100)
        of_gateway = StoredCertificate(self.GATEWAY, 200)
        store.certificates.add(FIRST, of_device, now_s=1, older_end_unix_s=9)
        store.certificates.add(SECOND, of_gateway, now_s=1, older_end_unix_s=9)
        assert store.certificates.find(FIRST) == of_device
        assert store.certificates.find(SECOND) == of_gateway
        assert store.certificates.find(THIRD) is None

    def test_an_older_one_ends_after_the_overlap_and_is_then_forgotten(self, store: Store) -> None:
        for at, fingerprint in ((0, FIRST), (50, SECOND)):
            newer = StoredCertificate(self.DEVICE, at + 90)
            store.certificates.add(fingerprint, newer, now_s=at, older_end_unix_s=at + 10)
        assert store.certificates.find(FIRST) == StoredCertificate(self.DEVICE, 60)
        assert store.certificates.find(SECOND) == StoredCertificate(self.DEVICE, 140)
        third = StoredCertificate(self.DEVICE, 190)
        store.certificates.add(THIRD, third, now_s=60, older_end_unix_s=1_000)
        assert store.certificates.find(FIRST) is None
        assert store.certificates.find(SECOND) == StoredCertificate(self.DEVICE, 140)

    def test_those_of_a_forgotten_device_are_erased_and_no_other(self, store: Store) -> None:
        """The gateway's number is the forgotten device's ordinal."""
        store.enrol(devices(*range(5)))
        other = StoredCertificate(CertificateHolder(0, 4), 100)
        of_gateway = StoredCertificate(CertificateHolder(3), 100)
        for fingerprint, certificate in (
            (FIRST, StoredCertificate(CertificateHolder(0, 3), 100)),
            (SECOND, other),
            (THIRD, of_gateway),
        ):
            store.certificates.add(fingerprint, certificate, now_s=1, older_end_unix_s=9)
        store.register.forget(DeviceSelection((b"device 3",)))
        found = [store.certificates.find(one) for one in (FIRST, SECOND, THIRD)]
        assert found == [None, other, of_gateway]

    def test_one_that_is_stored_or_is_none_is_refused(self, store: Store) -> None:
        one = StoredCertificate(self.DEVICE, 100)
        store.certificates.add(FIRST, one, now_s=1, older_end_unix_s=9)
        with pytest.raises(StoreError, match="expected a new one"):
            store.certificates.add(FIRST, one, now_s=1, older_end_unix_s=5)
        with pytest.raises(StoreError, match="a fingerprint of 32 bytes, got 31"):
            store.certificates.add(FIRST[1:], one, now_s=1, older_end_unix_s=5)
        assert store.certificates.find(FIRST) == one


class TestEnrolmentByToken:
    def test_devices_are_taken_up_once(self, store: Store) -> None:
        assert store.enrol_with(devices(1, 2), TOKEN, 3) == Enrolled(2, 0)
        assert store.enrol_with(devices(2, 3), TOKEN, 3) == Enrolled(1, 1)
        assert [store.device(b"device %d" % n) for n in (1, 2, 3)] == [
            EnrolledDevice(0, secret(1)),
            EnrolledDevice(1, secret(2)),
            EnrolledDevice(2, secret(3)),
        ]

    def test_a_token_is_for_so_many_devices(self, store: Store) -> None:
        store.enrol_with(devices(1, 2), TOKEN, 2)
        with pytest.raises(EnrolmentRefused, match="at most 2 devices"):
            store.enrol_with(devices(1, 3), TOKEN, 2)
        assert store.population() == 2
        assert store.enrol_with(devices(1, 2), TOKEN, 2) == Enrolled(0, 2)
        assert store.enrol_with(devices(3), bytes(16), 2) == Enrolled(1, 0)
        with pytest.raises(EnrolmentRefused, match="at most 2 devices"):
            store.enrol_with(devices(4, 5), bytes(16), 2)  # one of them would be within
        assert store.population() == 3

    def test_a_known_device_keeps_its_token(self, store: Store) -> None:
        store.enrol_with(devices(1), TOKEN, 9)
        with pytest.raises(EnrolmentRefused, match="device 1 enrolled with another"):
            store.enrol_with([*devices(2), (b"device 1", secret(9))], TOKEN, 9)
        assert store.population() == 1

    def test_devices_are_members_of_the_gateway_that_enrolled_them_last(self, store: Store) -> None:
        """A device that was enrolled without a gateway joins one, and stays what it is else."""
        one, other = (b"gateway 1", secret(91)), (b"gateway 2", secret(92))
        store.enrol_with(devices(1), TOKEN, 9)
        assert store.enrol_with(devices(1, 2), TOKEN, 9, one) == Enrolled(1, 1)
        assert store.enrol_with(devices(2, 3), TOKEN, 9, other) == Enrolled(1, 1)
        assert store.enrol_with(devices(1, 4), TOKEN, 9) == Enrolled(1, 1)
        assert [store.device(b"device %d" % n) for n in (1, 2, 3, 4)] == [
            EnrolledDevice(0, secret(1), 1),
            EnrolledDevice(1, secret(2), 2),
            EnrolledDevice(2, secret(3), 2),
            EnrolledDevice(3, secret(4), 0),
        ]
        assert store.gateway(b"gateway 2") == EnrolledGateway(2, secret(92))
        assert store.gateway(b"device 1") is None

    def test_a_gateway_keeps_its_token_and_nothing_is_enrolled_with_another(
        self, store: Store
    ) -> None:
        store.enrol_with(devices(1), TOKEN, 9, (b"gateway", secret(91)))
        with pytest.raises(EnrolmentRefused, match="a gateway with its own token"):
            store.enrol_with(devices(2), TOKEN, 9, (b"gateway", secret(92)))
        assert store.population() == 1

    def test_a_token_has_an_id_of_16_bytes(self, store: Store) -> None:
        with pytest.raises(StoreError, match="token id of 16 bytes"):
            store.enrol_with(devices(1), b"short", 9)


class TestLifeOfAStudy:
    def test_a_round_keeps_the_deadline_it_had_first(self, store: Store) -> None:
        store.add_study(FIRST, STUDY)
        early, late = Deadline("boot", 1_000, 60), Deadline("boot", 2_000, 60)
        assert store.open_round(FIRST, 0, [SECOND], early) == RoundNote(early, closed=False)
        assert store.open_round(FIRST, 0, [SECOND], late) == RoundNote(early, closed=False)
        assert store.open_round(FIRST, 1, [], None) == RoundNote(None, closed=False)
        assert store.open_round(FIRST, 1, [], late) == RoundNote(None, closed=False)
        store.note_deadline(FIRST, 0, late)
        assert store.open_round(FIRST, 0, [SECOND], early) == RoundNote(late, closed=False)

    def test_a_round_has_the_age_since_it_was_first_opened(self, store: Store) -> None:
        """A restart of the process made a round young: ages were counted by the process."""
        assert store.open_rounds() == OpenRounds(0, None)
        store.add_study(FIRST, STUDY)
        assert store.open_round(FIRST, 0, [SECOND], None).age_s <= 1
        store.open_round(FIRST, 1, [THIRD], None)
        earlier = "UPDATE rounds SET opened_unix_s = opened_unix_s - 300 WHERE number = 0"
        store._dialect.write(lambda execute: execute(earlier, ()))
        assert 300 <= store.open_round(FIRST, 0, [SECOND], None).age_s <= 310
        found = store.open_rounds()
        assert found.number == 2
        assert 300 <= (found.oldest_s or 0) <= 310
        store.close_round(FIRST, 0)
        assert store.open_rounds().number == 1
        store.conclude(FIRST, Conclusion(StudyState.DONE, "done", "", "{}"))
        assert store.open_rounds() == OpenRounds(0, None)

    def test_a_closed_round_stays_closed(self, store: Store) -> None:
        store.add_study(FIRST, STUDY)
        store.open_round(FIRST, 0, [SECOND], None)
        assert store.asked(SECOND) == AskedRequest(FIRST, over=False)
        store.close_round(FIRST, 0)
        assert store.asked(SECOND) == AskedRequest(FIRST, over=True)
        assert store.open_round(FIRST, 0, [SECOND], None).closed

    def test_the_rounds_of_an_ended_study_are_over(self, store: Store) -> None:
        store.add_study(FIRST, STUDY)
        store.open_round(FIRST, 0, [SECOND], None)
        store.conclude(FIRST, Conclusion(StudyState.CANCELLED, "cancelled", "", "{}"))
        assert store.asked(SECOND) == AskedRequest(FIRST, over=True)

    def test_studies_are_found_by_digest_by_analyst_and_by_state(self, store: Store) -> None:
        other = SignedStudy(b"another study", b"another key", b"a signature")
        store.add_study(SECOND, STUDY)
        store.add_study(FIRST, other)
        store.open_round(SECOND, 0, [], None)
        store.close_round(SECOND, 0)
        entry = StudyEntry(SECOND, STUDY, StudyState.OPEN, "", "", 1)
        assert store.study(SECOND) == STUDY
        assert store.listing.page(StudyQuery(), STUDY.public_key).studies == (entry,)
        assert store.listing.entry(SECOND) == entry
        assert (store.conclusion(SECOND), store.nano_nats_asked()) == (None, 0)
        done = Conclusion(StudyState.DONE, "done", "a line", "{}", 7)
        store.conclude(SECOND, done)
        assert store.listing.entry(SECOND) == StudyEntry(
            SECOND, STUDY, StudyState.DONE, "done", "a line", 1
        )
        assert (store.conclusion(SECOND), store.nano_nats_asked()) == (done, 7)
        assert sorted(store.study_costs()) == [0] * (len(store.study_costs()) - 1) + [7]
        assert store.listing.open_studies() == {FIRST: other}
        assert store.listing.count() == {
            StudyState.OPEN: 1,
            StudyState.DONE: 1,
            StudyState.FAILED: 0,
            StudyState.CANCELLED: 0,
        }
        for nothing in (store.study, store.listing.entry, store.conclusion, store.asked):
            assert nothing(bytes(32)) is None

    def test_a_study_costs_what_it_asked_however_it_ended(self, store: Store) -> None:
        """Users who answered a failed or cancelled study were charged all the same."""
        before = store.study_costs()
        for number, state in enumerate(
            (StudyState.DONE, StudyState.FAILED, StudyState.CANCELLED), start=1
        ):
            digest, asked = bytes([100 + number]) * 32, 10**number
            store.add_study(digest, SignedStudy(b"study %d" % number, b"a key", b"a signature"))
            store.conclude(digest, Conclusion(state, "over", "", "{}", asked))
        assert sorted(store.study_costs()) == sorted([*before, 10, 100, 1_000])
        assert store.nano_nats_asked() == sum(before) + 1_110

    def test_a_check_of_the_disk_leaves_nothing(self, store: Store) -> None:
        store.check_writable()
        store.check_writable()
        assert store.studies() == {}

    def test_what_was_asked_is_known(self, store: Store) -> None:
        store.add_study(FIRST, STUDY)
        assert not store.asked(SECOND)
        store.open_round(FIRST, 0, [SECOND], None)
        assert store.asked(SECOND) is not None
        assert store.asked(FIRST) is None

    def test_a_study_ends_once(self, store: Store) -> None:
        store.add_study(FIRST, STUDY)
        assert store.conclusions() == {}
        done = Conclusion(StudyState.DONE, "done", "", "{}")
        store.conclude(FIRST, done)
        store.conclude(FIRST, done)
        with pytest.raises(StoreError, match="expected no other conclusion"):
            store.conclude(FIRST, Conclusion(StudyState.CANCELLED, "cancelled", "", "{}"))
        assert store.conclusions() == {FIRST: done}

    def test_of_an_unknown_study_nothing_is_noted(self, store: Store) -> None:
        with pytest.raises(StoreError, match="expected a stored one"):
            store.open_round(FIRST, 0, [SECOND], None)
        with pytest.raises(StoreError, match="expected a stored one"):
            store.conclude(FIRST, Conclusion(StudyState.DONE, "done", "", "{}"))
        assert not store.asked(SECOND)


class TestEpochs:
    """A repeated study: what is kept of an epoch stands under its index, beside the others."""

    DONE = Conclusion(StudyState.DONE, "done", "", "{}", 7)
    MISSED = Conclusion(StudyState.FAILED, "missed", "a line", "{}", 0)

    def test_each_epoch_has_a_transcript_of_its_own(self, store: Store) -> None:
        store.add_study(FIRST, STUDY)
        store.log(FIRST, 5).append("five")
        store.log(FIRST, 6).append("six")
        store.log(FIRST, 5).append("five again")
        assert list(store.log(FIRST, 5).lines()) == ["five", "five again"]
        assert list(store.log(FIRST, 6).lines()) == ["six"]
        assert list(store.log(FIRST).lines()) == []

    def test_each_epoch_has_rounds_of_its_own(self, store: Store) -> None:
        store.add_study(FIRST, STUDY)
        early, late = Deadline("boot", 1_000, 60), Deadline("boot", 2_000, 60)
        assert store.open_round(FIRST, 0, [SECOND], early, 5) == RoundNote(early, closed=False)
        assert store.open_round(FIRST, 0, [THIRD], late, 6) == RoundNote(late, closed=False)
        store.note_deadline(FIRST, 0, early, 6)
        store.close_round(FIRST, 0, 5)
        assert store.open_round(FIRST, 0, [SECOND], late, 5) == RoundNote(early, closed=True)
        assert store.open_round(FIRST, 0, [THIRD], late, 6) == RoundNote(early, closed=False)
        assert store.asked(SECOND) == AskedRequest(FIRST, over=True)
        assert store.asked(THIRD) == AskedRequest(FIRST, over=False)
        entry = store.listing.entry(FIRST)
        assert entry is not None
        assert entry.rounds_closed == 0  # of the latest epoch
        store.close_round(FIRST, 0, 6)
        assert store.listing.entry(FIRST) == replace(entry, rounds_closed=1)

    def test_an_ended_epoch_ends_its_rounds_and_not_its_study(self, store: Store) -> None:
        store.add_study(FIRST, STUDY)
        store.open_round(FIRST, 0, [SECOND], None, 5)
        store.open_round(FIRST, 0, [THIRD], None, 6)
        store.conclude(FIRST, self.MISSED, 6)
        store.conclude(FIRST, self.DONE, 5)
        assert store.asked(SECOND) == AskedRequest(FIRST, over=True)
        assert store.epochs(FIRST) == [
            EpochEntry(5, StudyState.DONE, "done", "", 7),
            EpochEntry(6, StudyState.FAILED, "missed", "a line", 0),
        ]
        assert (store.conclusion(FIRST, 5), store.conclusion(FIRST, 6)) == (self.DONE, self.MISSED)
        assert (store.conclusion(FIRST), store.conclusions()) == (None, {})
        assert list(store.listing.open_studies()) == [FIRST]
        assert store.listing.count()[StudyState.OPEN] == 1
        assert store.nano_nats_asked() == 0

    def test_the_end_of_a_study_ends_the_rounds_of_all_its_epochs(self, store: Store) -> None:
        store.add_study(FIRST, STUDY)
        store.open_round(FIRST, 0, [SECOND], None, 5)
        store.conclude(FIRST, self.DONE)
        assert store.asked(SECOND) == AskedRequest(FIRST, over=True)
        assert (store.epochs(FIRST), store.conclusions()) == ([], {FIRST: self.DONE})
        assert store.nano_nats_asked() == 7

    def test_an_epoch_ends_once(self, store: Store) -> None:
        store.add_study(FIRST, STUDY)
        store.conclude(FIRST, self.DONE, 5)
        store.conclude(FIRST, self.DONE, 5)
        with pytest.raises(StoreError, match="expected no other conclusion"):
            store.conclude(FIRST, self.MISSED, 5)
        assert store.epochs(SECOND) == []


class TestSequenceNumbers:
    def test_the_highest_of_a_user_is_kept(self, store: Store) -> None:
        store.enrol(devices(1, 2))
        assert store.acknowledged_sequence(0) == 0
        store.accept([StoredReport(FIRST, 0, b"a", 3), StoredReport(FIRST, 1, b"a", 9)])
        store.accept([StoredReport(SECOND, 0, b"b", 2), StoredReport(SECOND, 1, b"b", 0)])
        assert store.acknowledged_sequences([1, 5, 0]) == [9, 0, 3]
        assert (store.acknowledged_sequence(0), store.acknowledged_sequence(1)) == (3, 9)
        store.accept([StoredReport(bytes(32), 0, b"c", (1 << 63) - 1)])
        assert store.acknowledged_sequence(0) == (1 << 63) - 1

    def test_two_reports_of_a_user_in_one_batch(self, store: Store) -> None:
        store.enrol(devices(1))
        store.accept([StoredReport(FIRST, 0, b"a", 5), StoredReport(SECOND, 0, b"b", 4)])
        assert store.acknowledged_sequence(0) == 5

    def test_a_report_that_was_refused_raises_nothing(self, store: Store) -> None:
        store.enrol(devices(1))
        store.accept([StoredReport(FIRST, 0, b"a", 1)])
        other = [StoredReport(FIRST, 0, b"b", 7), StoredReport(SECOND, 0, b"c", 2)]
        assert store.accept(other) == [CONFLICT, ACCEPTED]
        assert store.acknowledged_sequence(0) == 2

    def test_a_user_that_nobody_knows_has_none(self, store: Store) -> None:
        assert store.acknowledged_sequence(5) == 0

    @pytest.mark.parametrize("sequence", [-1, 1 << 63])
    def test_a_number_out_of_range_is_refused(self, store: Store, sequence: int) -> None:
        with pytest.raises(StoreError, match="sequence number of 0 to 2"):
            store.accept([StoredReport(FIRST, 0, b"a", sequence)])
