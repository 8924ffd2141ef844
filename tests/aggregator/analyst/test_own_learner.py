"""Learners of installed distributions: on the command line, in studies, refused elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from askance.cli import main
from askance_aggregator.analyst import CallRefused, StudyExport, verify
from askance_aggregator.analyst.submission import sign_submission
from askance_aggregator.clock import system_now_s
from askance_aggregator.learners import find, hypotheses, hypothesis_from_json, learners, registry
from askance_aggregator.studies import MemoryLog, Session
from askance_aggregator.studies.results import cohort_seed
from askance_aggregator.studies.study import Study
from askance_aggregator.studies.submitted import SubmissionRefused, learner_of
from askance_client.codec import decode_study, digest_of
from askance_client.device import Policy
from askance_client.errors import InvalidParameter
from askance_client.messages import SignedStudy
from askance_client.queries import Integer, Schema
from askance_simulation.experiments import simulate
from askance_simulation.fleets import Devices
from askance_simulation.fleets.columns import ColumnFleet
from askance_simulation.fleets.objects import ObjectFleet
from askance_simulation.populations import Population
from askance_simulation.randomness import Seed, SeededCoins

SOURCE = Path(__file__).parents[3] / "examples" / "askance-median"
DISTRIBUTION = "askance-median==0.3.1"
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
SCHEMA = Schema("ages", 1, age=Integer(0, 15))
USERS = 200
STUDY = """
learner = "median"
epsilon = "8"
beta = "1/10"
[parameters]
tau = "7/20"
[rounds]
least_answers = 1
[schema]
name = "ages"
[schema.fields]
age = { type = "integer", low = 0, high = 15 }
"""
Serving = Callable[..., AbstractContextManager[Any]]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder into which pip installed the distribution."""
    if find_spec("hatchling") is None:
        pytest.skip("hatchling builds the distribution")
    folder = tmp_path_factory.mktemp("site")
    offline = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index")
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "install",
        *offline,
        "--target",
        folder,
        SOURCE,
    ]
    subprocess.run(command, check=True, timeout=300)
    return folder


@pytest.fixture
def catalogue(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Provide a catalogue that is as before at the end of the test."""
    learners()
    before = set(sys.modules)
    monkeypatch.setattr(registry, "_CATALOGUE", dict(registry._CATALOGUE))
    monkeypatch.setattr(hypotheses, "_KINDS", dict(hypotheses._KINDS))
    yield monkeypatch
    for name in sys.modules.keys() - before:
        if name.startswith("askance_median"):
            del sys.modules[name]


@pytest.fixture
def installed(catalogue: pytest.MonkeyPatch, site: Path) -> None:
    """Put the installed distribution on the path."""
    catalogue.syspath_prepend(str(site))


def listed(folder: Path, name: str, version: str, code: str, *, learner: str = "median") -> Path:
    """Write a distribution with one module, `askance_median_NAME`, by hand; return its folder."""
    module = f"askance_median_{name}"
    facts = folder / f"{name}-{version}.dist-info"
    facts.mkdir(parents=True)
    (folder / f"{module}.py").write_text(code)
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (facts / "entry_points.txt").write_text(f"[askance.learners]\n{learner} = {module}:entry\n")
    return folder


def ages() -> Population:
    values = np.random.default_rng(7).binomial(15, 0.4, size=USERS)
    return Population.from_columns(SCHEMA, {"age": values})


def own_study() -> Study:
    learner = find("median").build(SCHEMA, {"tau": "7/20"})
    return Study(learner, SCHEMA, epsilon=8, beta="1/10", least_answers=1)


@pytest.mark.usefixtures("installed")
def test_it_is_in_the_catalogue_with_its_distribution() -> None:
    assert find("median").distribution == DISTRIBUTION
    assert "median" in [entry.name for entry in learners()]
    learner = find("median").build()
    assert (learner.version, learner.distribution) == (2, DISTRIBUTION)
    assert {entry.distribution for entry in learners()} == {"", DISTRIBUTION}


@pytest.mark.usefixtures("installed")
def test_the_command_line_plans_and_simulates_it(capsys: pytest.CaptureFixture[str]) -> None:
    settings = ("--set", "tau=1/4", "--epsilon", "8", "--json")
    assert main(["plan", "median", "--population", "traits", *settings]) == 0
    users = json.loads(capsys.readouterr().out)["users_needed"]
    arguments = ["simulate", "median", "--users", str(users), "--fleet", "columns", *settings]
    assert main(arguments) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["learner"] == "median"
    assert shown["error"]["max"] < 0.25
    assert main(["simulate", "--list", "--json"]) == 0
    assert "median" in [item["name"] for item in json.loads(capsys.readouterr().out)["learners"]]


@pytest.mark.usefixtures("installed")
def test_its_distribution_is_signed() -> None:
    terms = decode_study(sign_submission(own_study(), KEY).study)
    assert (terms.learner, terms.learner_version) == ("median", 2)
    assert terms.distribution == DISTRIBUTION
    assert learner_of(terms).distribution == DISTRIBUTION
    built_in = Study(find("mean").build(), epsilon=1)
    assert decode_study(sign_submission(built_in, KEY).study).distribution == ""


@pytest.mark.usefixtures("installed")
def test_200_devices_answer_it_as_simulated_ones_do(
    open_served: Serving, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The study goes in by the command line; the served transcript is that of both fleets."""
    people = ages()
    for fleet in ("objects", "columns"):
        assert simulate(own_study(), people, fleet=fleet, seed=1).hypothesis.column == "age"
    definition, key, exported = (tmp_path / name for name in ("study.toml", "key.pem", "out.json"))
    definition.write_text(STUDY)
    key.write_bytes(KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    key.chmod(0o600)
    with open_served(devices=True, population=people) as served:
        where = ["--aggregator", served.address, "--key", str(key), "--json"]
        assert main(["study", "submit", str(definition), "--wait", *where]) == 0
        result = json.loads(capsys.readouterr().out)
        assert main(["study", "result", result["study"], "--out", str(exported), *where]) == 0
    export = StudyExport.read(exported)
    assert verify(export).state == "done"
    assert export.result is not None
    assert hypothesis_from_json("median", export.result["hypothesis"]).column == "age"
    digests = {
        transcript_digest(export.signed, people, fleet) for fleet in (ObjectFleet, ColumnFleet)
    }
    assert digests == {export.result["transcript"]}


def transcript_digest(
    signed: SignedStudy, people: Population, fleet: Callable[[Devices], ObjectFleet | ColumnFleet]
) -> str:
    """Run a signed study on simulated devices with the coins of the served ones."""
    policy = Policy(frozenset({signed.public_key}), 100 * 10**9)
    session: Session[Any] = Session(
        study=signed,
        learner=learner_of(decode_study(signed.study)),
        fleet=fleet(Devices(people, policy, SeededCoins(Seed.of(1)), system_now_s)),
        log=MemoryLog(),
        cohort_seed=cohort_seed(digest_of(signed.study)),
        leaf_key=bytes(32),
    )
    return session.run().transcript


def test_an_aggregator_without_it_refuses_it_by_name_and_version(
    catalogue: pytest.MonkeyPatch, site: Path, open_served: Serving
) -> None:
    with catalogue.context() as inside:
        inside.syspath_prepend(str(site))
        signed = sign_submission(own_study(), KEY)
    catalogue.delitem(registry._CATALOGUE, "median")
    asked = r"no learner 'median'.*; the study asks for median version 2 of askance-median==0.3.1"
    with (
        open_served(devices=False) as served,
        served.connected() as aggregator,
        pytest.raises(CallRefused, match=asked),
    ):
        aggregator.submit_signed(signed)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learner_version": 1}, "median: expected version 2, found 1"),
        (
            {"distribution": "askance-median==0.4"},
            "expected version 2 of askance-median==0.3.1, got version 2 of askance-median==0.4",
        ),
        ({"distribution": ""}, "expected .* of askance-median==0.3.1, got version 2 of askance$"),
    ],
)
def test_another_version_or_distribution_is_refused(changes: dict[str, Any], message: str) -> None:
    terms = decode_study(sign_submission(own_study(), KEY).study)
    with pytest.raises(SubmissionRefused, match=message):
        learner_of(replace(terms, **changes))


LISTING = """
import askance as ask
from askance.learners import catalogued

@catalogued(summary="own", error="own", example=lambda: ask.Schema("own", 1, x=ask.Bit()))
@ask.non_adaptive("{name}")
def entry(schema):
    return ask.Batch([ask.Question(ask.predicate(schema["x"]))]), lambda answers: answers[0]
"""
# It names one learner and makes another.
OTHERS = """
made = entry
from askance_aggregator.learners import registry
registry._CATALOGUE.pop("median")

@catalogued(
    summary="own", error="own", example=lambda: ask.Schema("own", 1, x=ask.Bit()), made_by=made
)
def entry(schema):
    return ask.learners.mean(schema["x"])
"""


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import no_such_module", "expected askance_median_bad:entry to be imported, got Module"),
        ("entry = 7", "to be the catalogued learner of that name, got 'int'"),
        (LISTING.format(name="mode"), "to be the catalogued learner of that name, got 'mode'"),
        (LISTING.format(name="mean"), "the learner 'mean' is registered already"),
    ],
)
def test_a_listing_that_is_wrong_is_named(
    catalogue: pytest.MonkeyPatch, tmp_path: Path, code: str, message: str
) -> None:
    catalogue.syspath_prepend(str(listed(tmp_path, "bad", "1", code)))
    for look in (learners, lambda: find("median")):
        with pytest.raises(InvalidParameter, match=f"learner 'median' of bad==1: .*{message}"):
            look()
    assert find("mean").distribution == ""  # the other learners are found as before


def test_a_listing_makes_the_learner_that_it_names(
    catalogue: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    code = LISTING.format(name="median") + OTHERS
    catalogue.syspath_prepend(str(listed(tmp_path, "one", "1", code)))
    with pytest.raises(InvalidParameter, match=r"median: expected .*, got mean version 2"):
        find("median").build()


def test_two_distributions_of_one_learner_are_refused(
    catalogue: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    code = LISTING.format(name="median")
    for name in ("one", "two"):
        catalogue.syspath_prepend(str(listed(tmp_path / name, name, "1", code)))
    with pytest.raises(InvalidParameter, match=r"expected one distribution .*, got one==1, two==1"):
        find("median")


def test_a_built_in_learner_stays_built_in(catalogue: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = listed(tmp_path, "bad", "1", LISTING.format(name="mean"), learner="mean")
    catalogue.syspath_prepend(str(folder))
    assert find("mean").distribution == ""
    assert find("mean").build().version == 2
