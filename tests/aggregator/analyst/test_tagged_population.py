"""Studies of tagged devices: signed as a commitment, asked of these alone, and verified."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from askance.cli import main
from askance_aggregator import learners
from askance_aggregator.analyst import (
    CallRefused,
    StudyDefinition,
    StudyExport,
    VerificationFailed,
    definition_of_table,
    sign_submission,
    verify,
    verify_export,
)
from askance_aggregator.analyst.calls import Call
from askance_aggregator.analyst.messages import population_of, submission
from askance_aggregator.analyst.submission import Every, tagged_population
from askance_aggregator.clock import system_now_s
from askance_aggregator.server.studies import SubmissionLimits
from askance_aggregator.server.studies.outer_statements import delta_of_results
from askance_aggregator.store import SqliteStore, StudyState, TaggedPopulation
from askance_aggregator.store.register import DeviceSelection
from askance_aggregator.store.tagged_population import MAX_TAGS
from askance_aggregator.studies import Transcript
from askance_aggregator.studies.population import COMMITMENT
from askance_aggregator.studies.study import Study
from askance_aggregator.studies.transcript import Asked
from askance_client.codec import decode_study, digest_of
from askance_client.errors import InvalidParameter, PlanRefused, RemoteProtocolError
from askance_client.ledger import SECONDS_PER_DAY
from askance_protos.v1 import analyst_pb2 as pb
from askance_simulation.populations import masked_parity
from askance_simulation.randomness import Seed
from tests.aggregator.analyst import conftest
from tests.aggregator.analyst.test_epochs import Clock

if TYPE_CHECKING:
    from tests.aggregator.analyst.conftest import ServedManager

OpenHouse = Callable[..., AbstractContextManager["ServedManager"]]
TAGS = ("region=zzyzx", "v2")
TAGGED = [ordinal for ordinal in range(conftest.USERS) if ordinal % 6 == 0]
WAIT_S = 60
COLUMN = "b"
SALT = bytes(range(32))
SCHEMA = """
name = "masked-parity"
version = 1
[fields]
x = { type = "bits", width = 4 }
i = { type = "integer", low = 0, high = 3 }
b = { type = "bit" }
y = { type = "label", labels = ["1", "-1"] }
"""


def tag(store: SqliteStore, ordinals: list[int], *tags: str) -> None:
    ids = tuple(b"device %d" % ordinal for ordinal in ordinals)
    store.register.tag(DeviceSelection(ids), tags)


@pytest.fixture
def store() -> SqliteStore:
    """Every second device has one tag, every third the other: every sixth both."""
    made = SqliteStore.in_memory()
    made.enrol(
        (b"device %d" % n, hashlib.sha256(hashlib.sha256(b"token %d" % n).digest()).digest())
        for n in range(conftest.USERS)
    )
    tag(made, list(range(0, conftest.USERS, 2)), TAGS[0])
    tag(made, list(range(0, conftest.USERS, 3)), TAGS[1])
    return made


def study(served: ServedManager) -> Study:
    """The share of a bit: as exact as the users allow."""
    schema = served.population.schema
    return Study(
        learners.find("mean").build(schema, {"column": COLUMN}),
        schema,
        epsilon="4",
        least_answers=1,
    )


def answered(store: SqliteStore, digest: bytes, epoch: int = 0) -> set[int]:
    """Return the ordinals whose reports are stored."""
    return {
        ordinal
        for event in Transcript(store.log(digest, epoch)).recorded
        if isinstance(event, Asked)
        for group in event.groups
        for ordinal, _ in store.reports(digest_of(group.payload))
    }


def test_tagged_devices_answer_alone_and_see_no_tag(
    open_served: OpenHouse, store: SqliteStore, tmp_path: Path
) -> None:
    """A device signs nothing new: its study has 32 more bytes, others for each study."""
    with (
        open_served(devices=True, store=store) as served,
        served.connected() as aggregator,
    ):
        handle = aggregator.submit(study(served), tags=reversed(TAGS))
        result = handle.result(timeout_s=WAIT_S)
        assert (result.state, result.message) == (StudyState.DONE, "")
        digest = bytes.fromhex(handle.id)
        assert answered(store, digest) == set(TAGGED)
        facts = {"tags": list(TAGS), "devices": len(TAGGED)}
        assert (result.content["population"], result.content["users"]) == (facts, len(TAGGED))
        status = handle.status().population
        assert {"tags": list(status.tags), "devices": status.devices} == facts
        signed = store.studies()[digest]
        assert b"zzyzx" not in signed.study
        again = aggregator.submit(study(served), tags=TAGS)
        first, second = (
            dict(decode_study(store.studies()[bytes.fromhex(one.id)].study).parameters)[COMMITMENT]
            for one in (handle, again)
        )
        assert len(first) == len(second) == 64
        assert first != second
        found = handle.export(tmp_path / "study.json")
    assert isinstance(found, StudyExport)
    assert StudyExport.read(tmp_path / "study.json") == found
    verified = verify_export(tmp_path / "study.json")
    assert f"the population, devices tagged {', '.join(TAGS)}" in " ".join(verified.checked)
    assert "the operator's word" in " ".join(verified.believed)
    assert found.population is not None
    for changed in (
        replace(found, population=TaggedPopulation(("eu",), found.population.salt)),
        replace(found, population=TaggedPopulation(TAGS, SALT)),
        replace(found, population=None),
        replace(found, result={**(found.result or {}), "population": {**facts, "tags": ["eu"]}}),
    ):
        with pytest.raises(VerificationFailed, match=r"population"):
            verify(changed)


def test_tags_that_do_not_open_the_commitment_are_refused(
    open_served: OpenHouse, store: SqliteStore
) -> None:
    with (
        open_served(devices=False, store=store) as served,
        served.connected() as aggregator,
    ):
        right = TaggedPopulation(TAGS, SALT)
        signed = sign_submission(study(served), conftest.KEY, population=right)
        plain = sign_submission(study(served), conftest.KEY)
        for one, population in (
            (signed, TaggedPopulation(("v2",), SALT)),
            (signed, TaggedPopulation(TAGS, bytes(32))),
            (signed, None),
            (plain, right),
        ):
            with pytest.raises(CallRefused, match="population: expected") as refused:
                aggregator.submit_signed(one, population)
            assert refused.value.reason == "malformed"
        assert aggregator.studies() == []
        assert aggregator.submit_signed(signed, right).id == digest_of(signed.study).hex()
        # A client of an earlier version asks for no population, and would refuse the field.
        digest = digest_of(signed.study)
        watch = Call("Analysts/Watch")
        older = next(aggregator.stream(watch, digest, pb.StudyRequest(), pb.StudyEvent, WAIT_S))
        assert not older.HasField("population")


def test_a_plan_is_for_the_tagged_devices(open_served: OpenHouse, store: SqliteStore) -> None:
    with (
        open_served(devices=False, store=store) as served,
        served.connected() as aggregator,
    ):
        definition = StudyDefinition(study(served), days=7, tags=TAGS)
        planned = aggregator.plan(definition)
        assert planned["population"] == {"tags": list(TAGS), "devices": len(TAGGED)}
        with pytest.raises(PlanRefused, match=r"devices tagged region=nowhere, got none"):
            aggregator.submit(study(served), tags=["region=nowhere"])
        schema = served.population.schema
        exact = learners.find("mean").build(schema, {"column": COLUMN, "tau": "0.001"})
        with pytest.raises(PlanRefused, match=r"population has 50.*devices tagged region=zzyzx"):
            aggregator.submit(Study(exact, schema, epsilon="4"), tags=TAGS)
        assert aggregator.studies() == []


def test_a_result_states_the_delta_of_all_enrolled_devices(
    open_served: OpenHouse, store: SqliteStore, tmp_path: Path
) -> None:
    """The operator's account has that one too: 1 / (100 * 20,000), and not 10^-6 of 300 users."""
    tag(store, list(range(conftest.USERS)), "all")
    store.enrol((f"other {n}".encode(), bytes(32)) for n in range(20_000 - conftest.USERS))
    bit = learners.find("mean").build(masked_parity(1, Seed.of(5), 4).schema, {"column": COLUMN})
    with open_served(devices=True, store=store) as served, served.connected() as aggregator:
        share = Study(bit, served.population.schema, epsilon="1", least_answers=200)
        handle = aggregator.submit(share, tags=["all"])
        stated = handle.result(timeout_s=WAIT_S).content["outer"]
        planned = aggregator.plan(StudyDefinition(share, days=7, tags=("all",)))
        handle.export(tmp_path / "study.json")
    assert (stated["answers"], stated["delta"]) == (300, 5e-7)
    terms = store.outer.terms()
    assert terms is not None
    assert terms.delta == Fraction(1, 2_000_000)
    assert planned["outer"]["delta"] == 5e-7
    verify_export(tmp_path / "study.json")
    store.enrol((f"later {n}".encode(), bytes(32)) for n in range(20_000))
    assert delta_of_results(store) == Fraction(1, 4_000_000)


def test_users_are_fixed_for_good_and_outlive_a_restart(
    open_served: OpenHouse, store: SqliteStore
) -> None:
    with open_served(devices=False, store=store) as served, served.connected() as aggregator:
        name = aggregator.submit(study(served), tags=TAGS).id
        digest = bytes.fromhex(name)
        aggregator.study(name).status()
        while store.register.fixed_users(digest) is None:
            pass
        # Untagged, newly tagged: the users of a study that has begun stay.
        store.register.tag(DeviceSelection(tags=TAGS), ["later"], [TAGS[1]])
        tag(store, [1], *TAGS)
    with open_served(devices=True, store=store) as served, served.connected() as aggregator:
        assert aggregator.study(name).result(timeout_s=WAIT_S).reason == "done"
    assert answered(store, digest) == set(TAGGED)


def test_devices_that_are_revoked_are_neither_counted_nor_asked(
    open_served: OpenHouse, store: SqliteStore
) -> None:
    """A study of all devices ends without a deadline when the others have answered."""
    store.register.revoke(DeviceSelection((b"device 0", b"device 7")))
    store.register.forget(DeviceSelection((b"device 8",)))
    others = set(range(conftest.USERS)) - {0, 7, 8}
    with open_served(devices=False, store=store) as served, served.connected() as aggregator:
        planned = aggregator.plan(StudyDefinition(study(served), days=7))
        assert planned["users"] == len(others)
        handle = aggregator.submit(study(served))
        digest = bytes.fromhex(handle.id)
        while store.register.fixed_users(digest) is None:
            pass
        store.register.restore(DeviceSelection((b"device 7",)))
    with open_served(devices=True, store=store) as served, served.connected() as aggregator:
        result = aggregator.study(handle.id).result(timeout_s=WAIT_S)
    assert (result.state, result.content["users"]) == (StudyState.DONE, len(others))
    assert answered(store, digest) == others


def test_devices_that_have_not_called_lately_are_neither_counted_nor_asked(
    open_served: OpenHouse, store: SqliteStore
) -> None:
    """30 days after their enrolment; those who come back later are of the next study."""
    later_s = system_now_s() + 30 * SECONDS_PER_DAY
    present = sorted(set(range(conftest.USERS)) - {0, 6, 7})
    store.register.note_seen(present, later_s // SECONDS_PER_DAY - 7)
    limits = SubmissionLimits(seen_within_days=7)
    aside = {"store": store, "limits": limits, "now_s": lambda: later_s}
    with open_served(devices=False, **aside) as served, served.connected() as aggregator:
        assert aggregator.plan(StudyDefinition(study(served), days=7))["users"] == len(present)
        handle = aggregator.submit(study(served))
        tagged = aggregator.submit(study(served), tags=TAGS)
        while any(
            store.register.fixed_users(bytes.fromhex(i.id)) is None for i in (handle, tagged)
        ):
            pass
    with open_served(devices=True, **aside) as served, served.connected() as aggregator:
        result = aggregator.study(handle.id).result(timeout_s=WAIT_S)
        of_tagged = aggregator.study(tagged.id).result(timeout_s=WAIT_S)
    assert (result.state, result.content["users"]) == (StudyState.DONE, len(present))
    assert answered(store, bytes.fromhex(handle.id)) == set(present)
    assert (of_tagged.state, of_tagged.content["users"]) == (StudyState.DONE, len(TAGGED) - 2)
    assert answered(store, bytes.fromhex(tagged.id)) == set(TAGGED) - {0, 6}


def test_a_study_that_has_begun_with_all_devices_keeps_them(
    open_served: OpenHouse, store: SqliteStore
) -> None:
    """A revocation does not change whom its recorded rounds ask."""
    with open_served(devices=False, store=store) as served, served.connected() as aggregator:
        handle = aggregator.submit(study(served))
        digest = bytes.fromhex(handle.id)
        while not Transcript(store.log(digest)).recorded:
            pass
        store.register.revoke(DeviceSelection((b"device 7",)))
    with open_served(devices=False, store=store) as served, served.connected() as aggregator:
        while not (asked := aggregator.study(handle.id).status().asked):
            pass
    assert asked == conftest.USERS
    assert store.register.fixed_users(digest) is None


def test_each_epoch_has_the_devices_that_are_tagged_when_it_begins(
    store: SqliteStore, tmp_path: Path
) -> None:
    clock = Clock()
    with (
        conftest.serving(devices=True, store=store, now_s=clock) as served,
        served.connected() as aggregator,
    ):
        handle = aggregator.submit(study(served), every=Every(7, 3), tags=TAGS)
        first = handle.result(WAIT_S, epoch=1)
        tag(store, [1], *TAGS)
        clock.next_week()
        second = handle.result(WAIT_S, epoch=2)
        store.register.tag(DeviceSelection(tags=TAGS), [], [TAGS[0]])
        clock.next_week()
        third = handle.result(WAIT_S, epoch=3)
        handle.export(tmp_path / "series.json")
    sizes = [one.content["population"]["devices"] for one in (first, second, third)]
    assert sizes == [len(TAGGED), len(TAGGED) + 1, 0]
    assert (third.state, third.reason) == (StudyState.FAILED, "plan-refused")
    assert third.message == "study: expected devices that have all of its tags, got none"
    assert "the operator's word" in " ".join(verify_export(tmp_path / "series.json").believed)


def test_commands_name_the_tags(
    open_served: OpenHouse, store: SqliteStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key, file = tmp_path / "analyst.pem", tmp_path / "study.toml"
    key.write_bytes(
        conftest.KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )
    (tmp_path / "people.toml").write_text(SCHEMA)
    file.write_text(
        'learner = "mean"\nepsilon = "4"\nschema = "people.toml"\n[parameters]\n'
        f'column = "{COLUMN}"\n[population]\ntags = {json.dumps(TAGS)}\n'
    )
    told = f"devices tagged {', '.join(TAGS)}"
    with open_served(devices=True, store=store) as served:
        where = ["--aggregator", served.address, "--key", str(key)]
        assert main(["study", "submit", str(file), "--plan-only", *where]) == 0
        assert f"population: {told} (50)" in capsys.readouterr().out
        assert main(["study", "submit", str(file), *where]) == 0
        out = capsys.readouterr().out
        assert f"it asks {told}" in out
        study_id = out.split()[1]
        assert main(["study", "result", study_id, "--wait", *where]) == 0
        assert f"population: {told} (50)" in capsys.readouterr().out
        assert main(["study", "show", study_id, *where]) == 0
        assert f"population: {told} (50)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ([], "a list of one tag or more"),
        ("eu", "a list of one tag or more"),
        (["a b"], "got 'a b'"),
        ([f"t{n}" for n in range(MAX_TAGS + 1)], "at most 16"),
    ],
)
def test_a_definition_with_other_tags_is_refused(tags: object, found: str) -> None:
    table = {
        "learner": "mean",
        "epsilon": "1",
        "schema": {"name": "people", "version": 1, "fields": {"x": {"type": "bit"}}},
        "parameters": {"column": "x"},
        "population": {"tags": tags},
    }
    with pytest.raises(InvalidParameter, match=found):
        definition_of_table(table)


def test_a_commitment_hides_and_binds() -> None:
    """The encoding is fixed: another program computes the same 32 bytes."""
    encoded = b"askance population tags v1\0" + SALT + b"\0\2" + b"\0\2eu" + b"\0\2v2"
    assert TaggedPopulation.of(["v2", "eu", "v2"], SALT).commitment == (
        hashlib.sha256(encoded).digest()
    )
    different = {
        TaggedPopulation(tags, salt).commitment
        for tags in (("eu",), ("eu", "v2"), ("euv2",))
        for salt in (SALT, bytes(32))
    }
    assert len(different) == 6
    for tags, salt in (((), SALT), (("v2", "eu"), SALT), (("eu", "eu"), SALT), (("eu",), b"")):
        with pytest.raises(InvalidParameter, match=r"^(tags|salt): expected"):
            TaggedPopulation(tags, salt)
    assert tagged_population(()) is None


def test_the_wire_has_tags_beside_the_study_only(done: StudyExport) -> None:
    population = TaggedPopulation(("eu", "v2"), SALT)
    assert population_of(submission(done.signed, population)) == population
    assert population_of(submission(done.signed)) is None
    assert COMMITMENT not in dict(decode_study(done.signed.study).parameters)
    unsorted = TaggedPopulation(("eu", "v2"), SALT)
    object.__setattr__(unsorted, "tags", ("v2", "eu"))
    with pytest.raises(RemoteProtocolError, match="expected them sorted"):
        population_of(submission(done.signed, unsorted))
